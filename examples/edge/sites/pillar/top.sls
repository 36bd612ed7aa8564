base:
  '*':
    - release
