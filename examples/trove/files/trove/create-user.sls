create-user:
  trove.user_present:
    - user: {{ pillar['name'] | json }}
    - host: {{ pillar['host'] | json }}
    - databases: {{ pillar['databases'] | json }}
    - secret: {{ pillar['saltbridge_secrets'] | json }}
