/** `saltbridge key gen`: generates an RSA key pair and writes its files. */

import { chmod, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { generateKeyPair, keyFingerprint } from '#minion-protocol';
import type { CommandContext } from '../context.ts';
import { CommandError, errorCodeOf } from '../errors.ts';
import { printJson, printLine } from '../terminal.ts';

/** Options for a new key pair. */
interface KeyFilesOptions {
  /** Directory for the files, which must exist. */
  readonly dir: string;
  /** Base name of the files, which are called `<name>.pem` and `<name>.pub`. */
  readonly name: string;
  /** Size of the RSA key, in bits. */
  readonly bits: number;
}

/** Minimum size of a key, in bits. Salt's minimum is the same. */
const minBits = 2048;
const maxBits = 8_192;

/**
 * Creates a key pair and writes its files. The private key has mode 0400, and the public key mode
 * 0644. If one file cannot be written, the other file is removed.
 * @throws CommandError ERR_ARGS, ERR_FILE_EXISTS
 */
export async function generateKeyFiles(
  { dir, name, bits }: KeyFilesOptions,
  { isJson }: { readonly isJson: boolean },
  { stdout }: Pick<CommandContext, 'stdout'>,
): Promise<void> {
  if (path.basename(name) !== name || name.startsWith('.') || name === '') {
    throw new CommandError('ERR_ARGS', '--name: the value must be a file name without a directory');
  }
  if (bits < minBits || bits > maxBits) {
    throw new CommandError(
      'ERR_ARGS',
      `--bits: the value must be a number from ${minBits} to ${maxBits}`,
    );
  }
  const privateFile = path.join(dir, `${name}.pem`);
  const publicFile = path.join(dir, `${name}.pub`);
  const { privatePem, publicPem } = await generateKeyPair(bits);
  await writeNewFile(privateFile, privatePem, 0o400);
  try {
    await writeNewFile(publicFile, publicPem, 0o644);
  } catch (error) {
    await unlink(privateFile);
    throw error;
  }
  const finger = keyFingerprint(publicPem, 'sha256');
  if (isJson) await printJson(stdout, { privateFile, publicFile, fingerprint: finger });
  else await printLine(stdout, `${privateFile}\n${publicFile}\nfingerprint: ${finger}`);
}

/**
 * Writes a file that must not exist.
 * @throws CommandError ERR_FILE_EXISTS
 */
export async function writeNewFile(file: string, content: string, mode: number): Promise<void> {
  try {
    await writeFile(file, content, { mode, flag: 'wx' });
  } catch (cause) {
    if (errorCodeOf(cause) !== 'EEXIST') throw cause;
    const message = `${file} already exists; choose another name or directory`;
    throw new CommandError('ERR_FILE_EXISTS', message, { cause });
  }
  // Set the mode again, because the umask of the process may have removed permissions that other
  // accounts need.
  await chmod(file, mode);
}
