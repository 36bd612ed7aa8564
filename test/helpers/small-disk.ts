/** A disk that can be filled: a file system in memory, which only root may mount. */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, statfsSync, statSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ExecutionContext } from 'ava';

export interface SmallDisk {
  readonly directory: string;
  /** Takes all the room that is left, but for so many bytes. */
  fill(left?: number): void;
  /** Gives it back. */
  free(): void;
  /** Nothing can be written from now on. */
  makeReadOnly(): void;
}

/** Whether {@link mountSmallDisk} can be used here; tests that need it are skipped elsewhere. */
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

/** Mounts a disk of so many MiB for the time of a test. */
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
