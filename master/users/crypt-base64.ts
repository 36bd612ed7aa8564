/**
 * Alphabet of the Base64 variant that crypt(3) uses. Unlike in standard Base64, the lowest bits
 * come first.
 */
const alphabet = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Encodes up to three bytes in the Base64 variant of crypt(3).
 * @param characters - number of characters of the result
 */
export function cryptBase64(bytes: readonly number[], characters: number): string {
  let rest = bytes.reduce((number, byte) => number * 256 + byte, 0);
  let text = '';
  for (let count = 0; count < characters; count += 1) {
    text += alphabet.charAt(rest % 64);
    rest = Math.floor(rest / 64);
  }
  return text;
}
