/** A text in place of a key: the store does not look inside. */
export function keyText(name: string): string {
  return `-----BEGIN PUBLIC KEY-----\n${name.repeat(100)}\n-----END PUBLIC KEY-----`;
}
