/** Creates network namespaces, which isolate the networks of containers. */
import { execFileSync } from 'node:child_process';

/** Whether this process can create network namespaces. */
export const hasNamespaces: boolean = ((): boolean => {
  const name = `saltbridge-probe-${process.pid}`;
  try {
    execFileSync('ip', ['netns', 'add', name], { stdio: 'ignore' });
    execFileSync('ip', ['netns', 'exec', name, 'unshare', '--pid', '--fork', 'true'], {
      stdio: 'ignore',
    });
    return true;
  } catch {
    return false;
  } finally {
    remove(name);
  }
})();

function remove(name: string): void {
  try {
    execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
  } catch {
    // The namespace did not exist.
  }
}
