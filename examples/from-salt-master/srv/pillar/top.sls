base:
  "web*":
    - shop
