reload the shop:
  local.service.reload:
    - tgt: "web*"
    - args:
        - name: shop
