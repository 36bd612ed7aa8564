/** Returns a text in place of a key. The key store does not parse keys. */
export function keyText(name: string): string {
  return `-----BEGIN PUBLIC KEY-----\n${name.repeat(100)}\n-----END PUBLIC KEY-----`;
}
