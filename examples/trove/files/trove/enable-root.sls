enable-root:
  trove.root_enabled:
    - secret: {{ pillar['saltbridge_secrets'] | json }}
