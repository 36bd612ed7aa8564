/**
 * Creates a tar archive in memory. Each file has a header of 512 bytes, which precedes its content
 * [POSIX ustar].
 */

/** A file of an archive. */
export interface TarMember {
  /** Name of the file: at most 100 ASCII characters. */
  readonly name: string;
  readonly content: Uint8Array;
  /** Permission bits, for example `0o400`. */
  readonly mode: number;
}

const blockBytes = 512;

export function packTar(members: readonly TarMember[], now: Date): Buffer {
  const end = Buffer.alloc(2 * blockBytes);
  return Buffer.concat([...members.flatMap((member) => blocksOf(member, now)), end]);
}

function blocksOf({ name, content, mode }: TarMember, now: Date): Buffer[] {
  const header = Buffer.alloc(blockBytes);
  const write = (text: string, at: number): number => header.write(text, at, 'latin1');
  const octal = (value: number, digits: number): string =>
    `${value.toString(8).padStart(digits, '0')}\0`;
  write(name, 0);
  write(octal(mode, 7), 100);
  write(octal(0, 7), 108);
  write(octal(0, 7), 116);
  write(octal(content.byteLength, 11), 124);
  write(octal(Math.floor(now.getTime() / 1000), 11), 136);
  write('        ', 148);
  write('0', 156);
  write('ustar\0' + '00', 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  const padding = Buffer.alloc((blockBytes - (content.byteLength % blockBytes)) % blockBytes);
  return [header, Buffer.from(content), padding];
}
