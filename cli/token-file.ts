/** The token of whoever uses the command line, kept from one command to the next. */
import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { codeOf } from './error-code.ts';

const form = /^[0-9a-f]{64}$/;

/** The token in a file that only its owner can read; `undefined` if there is none such. */
export async function readTokenFile(file: string): Promise<string | undefined> {
  try {
    const { mode } = await stat(file);
    if ((mode & 0o077) !== 0) return undefined;
    const token = (await readFile(file, 'utf8')).trim();
    return form.test(token) ? token : undefined;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes it anew, 0600 from the first byte on; a file or link that is there is replaced. */
export async function writeTokenFile(file: string, token: string): Promise<void> {
  const fresh = `${file}.${randomBytes(8).toString('hex')}`;
  const handle = await open(fresh, 'wx', 0o600);
  try {
    await handle.writeFile(`${token}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, file).catch(async (error: unknown) => {
    await rm(fresh, { force: true });
    throw error;
  });
}
