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
`;

const byItself = 'exec chroot $top/root "$@"';

/** The unit of the program is the only one that systemd starts, and no setting of the kernel changes. */
const bySystemd = `
mount --rbind /sys $top/root/sys
mount --bind $top/root/proc/sys $top/root/proc/sys
mount -o remount,bind,ro $top/root/proc/sys
mkdir -p $top/root/run/systemd/system
printf %s "$1" > $top/root/run/systemd/system/program.service
exec chroot $top/root env -i container=lxc /lib/systemd/systemd --system --unit=program.service
`;

/** The unit of a program, with the environment of this one. */
function unitOf(command: readonly string[]): string {
  const quote = (text: string): string =>
    JSON.stringify(text).replaceAll('%', '%%').replaceAll('$', '$$$$');
  const environment = ['HOME', 'PATH'].map((name) => quote(`${name}=${process.env[name] ?? ''}`));
  return `[Unit]
DefaultDependencies=no
[Service]
Environment=${environment.join(' ')}
ExecStart=${command.map(quote).join(' ')}
`;
}

export const hasSystemd: boolean = existsSync('/lib/systemd/systemd');

/**
 * The program and arguments that run another program in such a root.
 * @param init - process 1 there. Default: the program
 */
export function inThrowawayRoot(
  directory: string,
  command: readonly string[],
  init?: 'systemd',
): readonly string[] {
  const namespaces = ['--mount', '--pid', ...(init === undefined ? [] : ['--cgroup'])];
  const shell = ['unshare', ...namespaces, '--fork', '--kill-child', 'sh', '-c'];
  return init === undefined
    ? [...shell, `${script}${byItself}`, directory, ...command]
    : [...shell, `${script}${bySystemd}`, directory, unitOf(command)];
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
