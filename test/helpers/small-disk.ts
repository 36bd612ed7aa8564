/** Mounts a small file system in memory, which tests can fill. Only root can mount it. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, statfsSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ExecutionContext } from 'ava';

export interface SmallDisk {
  readonly directory: string;
  /** Fills the free space, except for `left` bytes. */
  fill(left?: number): void;
  /** Frees the space again. */
  free(): void;
  /** Makes the file system read-only. */
  makeReadOnly(): void;
}

/** Whether {@link mountSmallDisk} works here. Tests that need it are skipped otherwise. */
export const canMount: boolean = ((): boolean => {
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-mount-'));
  try {
    mount(directory, 1);
    unmount(directory);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
})();

/**
 * Mounts a disk for the duration of a test.
 * @param mebibytes - its size
 */
export function mountSmallDisk(
  t: Pick<ExecutionContext, 'teardown'>,
  mebibytes: number,
): SmallDisk {
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-disk-'));
  mount(directory, mebibytes);
  t.teardown(() => {
    unmount(directory);
    rmSync(directory, { recursive: true });
  });
  const ballast = path.join(directory, 'ballast');
  return {
    directory,
    fill: (left = 0) => {
      const { bsize } = statfsSync(directory);
      try {
        for (;;) appendFileSync(ballast, Buffer.alloc(bsize, 1));
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
      }
      truncateSync(ballast, statSync(ballast).size - left);
    },
    free: () => rmSync(ballast),
    makeReadOnly: () => {
      execFileSync('/bin/mount', ['-o', 'remount,ro', directory], { stdio: 'ignore' });
    },
  };
}

function mount(directory: string, mebibytes: number): void {
  const size = `size=${mebibytes}m,mode=0700`;
  execFileSync('/bin/mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', directory], { stdio: 'ignore' });
}

function unmount(directory: string): void {
  execFileSync('/bin/umount', ['-l', directory], { stdio: 'ignore' });
}
