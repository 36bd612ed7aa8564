/** The base64 alphabet of crypt(3). */

/** Base 64 as crypt(3) writes it: another alphabet, the lowest bits first. */
const alphabet = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** So many characters of up to three bytes. */
export function cryptBase64(bytes: readonly number[], characters: number): string {
  let rest = bytes.reduce((number, byte) => number * 256 + byte, 0);
  let text = '';
  for (let count = 0; count < characters; count += 1) {
    text += alphabet.charAt(rest % 64);
    rest = Math.floor(rest / 64);
  }
  return text;
}
