/**
 * A Debian root that is thrown away: this system's own below an overlay in memory, in mount and PID
 * namespaces. What a program changes there, packages and accounts included, ends with the program.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** `$0` is a directory that stays the same inside; the rest is the program. */
const script = `
set -e
mount --make-rprivate /
top=/mnt
mount -t tmpfs -o mode=755 tmpfs $top
mkdir $top/upper $top/work $top/root
mount -t overlay -o lowerdir=/,upperdir=$top/upper,workdir=$top/work overlay $top/root
mount -t proc proc $top/root/proc
mount --rbind /dev $top/root/dev
mount -t tmpfs tmpfs $top/root/run
mount --bind "$0" "$top/root$0"
exec chroot $top/root "$@"
`;

/** The program and arguments that run another program in such a root. */
export function inThrowawayRoot(directory: string, command: readonly string[]): readonly string[] {
  return [
    'unshare',
    '--mount',
    '--pid',
    '--fork',
    '--kill-child',
    'sh',
    '-c',
    script,
    directory,
    ...command,
  ];
}

/** Whether one can be made: by root, on Debian, where the kernel permits it. */
export const hasThrowawayRoot: boolean = ((): boolean => {
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) return false;
  const [program = '', ...args] = inThrowawayRoot('/tmp', ['true']);
  try {
    execFileSync(program, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();
