/**
 * A temporary Debian root: an overlay in memory over this system, in separate mount and PID
 * namespaces. All changes of a program, including packages and accounts, are discarded when the
 * program ends.
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * Script that creates the root. `$0` is a directory that is the same inside; the other arguments
 * are the program.
 */
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

/** Script that starts systemd with only the unit of the program. No kernel setting changes. */
const bySystemd = `
mount --rbind /sys $top/root/sys
mount --bind $top/root/proc/sys $top/root/proc/sys
mount -o remount,bind,ro $top/root/proc/sys
mkdir -p $top/root/run/systemd/system
printf %s "$1" > $top/root/run/systemd/system/program.service
exec chroot $top/root env -i container=lxc /lib/systemd/systemd --system --unit=program.service
`;

/** Returns the unit of a program with the environment of this process. */
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
 * Returns the command that runs another program in a temporary root.
 * @param init - process 1 of the root; default: the program itself
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

/** Whether a temporary root can be created here: by root, on Debian, if the kernel permits it. */
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
