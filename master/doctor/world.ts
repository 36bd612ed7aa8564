import { generateKeyPairSync, sign } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { isMissing } from '../system-error.ts';
import type { DiskRoom, DoctorWorld } from './patient.ts';

/** This machine, as this process sees it. */
export function thisWorld(): DoctorWorld {
  const uid = process.getuid?.();
  return {
    now: Date.now,
    procDirectory: '/proc',
    // Root may look at a master of any user's.
    uid: uid === 0 ? undefined : uid,
    diskOf,
    nodeVersion: process.versions.node,
    canSignSha1,
  };
}

/** Of the nearest directory above that exists. */
async function diskOf(file: string): Promise<DiskRoom> {
  try {
    const { bavail, blocks, bsize, ffree, files } = await statfs(file);
    return {
      freeBytes: bavail * bsize,
      totalBytes: blocks * bsize,
      freeInodes: ffree,
      totalInodes: files,
    };
  } catch (error) {
    const parent = path.dirname(file);
    if (!isMissing(error) || parent === file) throw error;
    return diskOf(parent);
  }
}

/** Some systems' crypto policies forbid the digest, whatever the kind of key. */
function canSignSha1(): boolean {
  // An RSA key would take a second to make.
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  try {
    return sign('sha1', Buffer.from('x'), privateKey).length > 0;
  } catch {
    return false;
  }
}
