/** Network namespaces, which containers have each their own of. */
import { execFileSync } from 'node:child_process';

/** Why there are none; `undefined`: there are. */
export const namespacesAreMissing: string | undefined = ((): string | undefined => {
  const name = `saltbridge-probe-${process.pid}`;
  try {
    execFileSync('ip', ['netns', 'add', name], { stdio: 'ignore' });
    execFileSync('ip', ['netns', 'exec', name, 'unshare', '--pid', '--fork', 'true'], {
      stdio: 'ignore',
    });
    return undefined;
  } catch {
    return 'network namespaces need root and the packages iproute2 and util-linux';
  } finally {
    remove(name);
  }
})();

function remove(name: string): void {
  try {
    execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
  } catch {
    // There was none.
  }
}
