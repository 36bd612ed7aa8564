/**
 * Proves to the master which account makes a call over the local socket. Node.js cannot read the
 * peer credentials of a socket. So the client creates a file in the socket's directory, and the
 * master reads the owner of the file. The request contains a secret, and the file contains its
 * digest, so that no other account can use the file. A proof is valid for one call.
 */

import { hash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { processUser } from '#runtime';

/** HTTP header that contains the secret. */
export const callerHeader = 'x-saltbridge-caller';

const prefix = '.caller-';
const secretForm = /^[0-9a-f]{64}$/;

/** Proof of the account of a client. The client creates it before the request that uses it. */
export interface CallerProof {
  /** Value of {@link callerHeader}. */
  readonly secret: string;
  /**
   * Removes the file that proves the caller's account, unless the master has already removed it.
   */
  remove(): Promise<void>;
}

/**
 * Creates a proof of the account that makes a call. Returns `undefined` if this account owns the
 * socket, because {@link accountOfCaller} then needs no proof. Also returns `undefined` if the file
 * of the proof cannot be created. The call is then made without a proof.
 */
export async function createCallerProof(socketPath: string): Promise<CallerProof | undefined> {
  const owner = await lstat(socketPath).then(
    ({ uid }) => uid,
    () => undefined,
  );
  if (owner !== undefined && owner === process.geteuid?.()) return undefined;
  const secret = randomBytes(32).toString('hex');
  const digest = hash('sha256', secret);
  const file = path.join(path.dirname(socketPath), `${prefix}${digest}`);
  const remove = (): Promise<void> => rm(file, { force: true }).catch(() => {});
  try {
    const handle = await open(file, 'wx', 0o644);
    try {
      // The mode is set explicitly, whatever the umask is. The file must be readable if the master
      // runs under another account. Only root and that account can enter the directory.
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
 * Returns the name of the account that created the proof. If there is no valid proof, returns the
 * account that owns the socket.
 * @param secret - value of {@link callerHeader} in the request
 */
export async function accountOfCaller(
  socketPath: string,
  secret: string | readonly string[] | undefined,
): Promise<string> {
  const proven =
    typeof secret === 'string' && secretForm.test(secret)
      ? await ownerOfProof(path.dirname(socketPath), hash('sha256', secret)).catch(() => undefined)
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
    // Through a hard link, this name could refer to a file of another account.
    if (nlink !== 1 || size !== digest.length) return undefined;
    return (await handle.readFile('utf8')) === digest ? uid : undefined;
  } finally {
    await handle.close();
  }
}

/**
 * Returns the name of an account. Only root and the master's own account can open the socket, so no
 * other names are needed. Node.js cannot look up the names of other accounts.
 */
function accountName(uid: number): string {
  if (uid === 0) return 'root';
  const own = uid === process.getuid?.() ? processUser() : null;
  return own ?? `uid:${uid}`;
}

/** Removes the proof files of clients that ended before their request arrived. */
export async function removeCallerProofs(socketPath: string): Promise<void> {
  const directory = path.dirname(socketPath);
  const names = (await readdir(directory)).filter((name) => name.startsWith(prefix));
  await Promise.all(names.map((name) => rm(path.join(directory, name), { force: true })));
}
