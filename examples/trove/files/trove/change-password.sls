change-password:
  trove.password_set:
    - user: {{ pillar['name'] | json }}
    - host: {{ pillar['host'] | json }}
    - secret: {{ pillar['saltbridge_secrets'] | json }}
