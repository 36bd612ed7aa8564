/etc/motd:
  file.managed:
    - contents: Managed by Salt.
