shop:
  port: 8080
  name: {{ grains.id }}.example.org
