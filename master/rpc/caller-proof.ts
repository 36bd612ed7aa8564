/**
 * Proof which account calls over the local socket. Node.js has no peer credentials: the caller makes a
 * file in the socket's directory, whose owner the master reads. The file holds the digest of a secret
 * that only the request carries, so that nobody else can refer to it; it is good for one call.
 */

import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { processUser } from '#runtime';

/** The header of a request that has the secret. */
export const callerHeader = 'x-saltbridge-caller';

const prefix = '.caller-';
const secretForm = /^[0-9a-f]{64}$/;

function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/** A caller's proof, before the request that refers to it. */
export interface CallerProof {
  /** For {@link callerHeader}. */
  readonly secret: string;
  /** Removes the file where the master has not done so. */
  remove(): Promise<void>;
}

/**
 * Makes a proof; `undefined` where none is needed, because {@link accountOfCaller} takes a call without
 * one for the socket's owner, and where no file can be made: the call goes on without.
 */
export async function createCallerProof(socketPath: string): Promise<CallerProof | undefined> {
  const owner = await lstat(socketPath).then(
    ({ uid }) => uid,
    () => undefined,
  );
  if (owner !== undefined && owner === process.geteuid?.()) return undefined;
  const secret = randomBytes(32).toString('hex');
  const digest = digestOf(secret);
  const file = path.join(path.dirname(socketPath), `${prefix}${digest}`);
  const remove = (): Promise<void> => rm(file, { force: true }).catch(() => {});
  try {
    const handle = await open(file, 'wx', 0o644);
    try {
      // Whatever the umask: the master may be another account, and the directory is closed to others.
      await handle.chmod(0o644);
      await handle.writeFile(digest);
    } finally {
      await handle.close();
    }
    return { secret, remove };
  } catch {
    await remove();
    return undefined;
  }
}

/**
 * The account that made the proof, or without one, the account that owns the socket.
 * @param secret - what the request has in {@link callerHeader}
 */
export async function accountOfCaller(
  socketPath: string,
  secret: string | readonly string[] | undefined,
): Promise<string> {
  const proven =
    typeof secret === 'string' && secretForm.test(secret)
      ? await ownerOfProof(path.dirname(socketPath), digestOf(secret)).catch(() => undefined)
      : undefined;
  return accountName(proven ?? (await lstat(socketPath)).uid);
}

async function ownerOfProof(directory: string, digest: string): Promise<number | undefined> {
  const file = path.join(directory, `${prefix}${digest}`);
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
  const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const { uid, size, nlink } = await handle.stat();
    await rm(file);
    // A link could give a file of somebody else's this name.
    if (nlink !== 1 || size !== digest.length) return undefined;
    return (await handle.readFile('utf8')) === digest ? uid : undefined;
  } finally {
    await handle.close();
  }
}

/** Nobody but root and the master's own account can open the socket; Node.js knows no other names. */
function accountName(uid: number): string {
  if (uid === 0) return 'root';
  const own = uid === process.getuid?.() ? processUser() : null;
  return own ?? `uid:${uid}`;
}

/** Removes what callers left that died before their request arrived. */
export async function removeCallerProofs(socketPath: string): Promise<void> {
  const directory = path.dirname(socketPath);
  const names = (await readdir(directory)).filter((name) => name.startsWith(prefix));
  await Promise.all(names.map((name) => rm(path.join(directory, name), { force: true })));
}
