"""What can be evaluated: the Policy protocol and the policies that come with Proctor."""
