/**
 * Installs the plug-in for a heat-engine of this machine. The directory must have the layout of
 * `start-heat`: `etc/plugins` is in `plugin_dirs`, and `home` is the home directory of heat-engine.
 * In production, a package or an Ansible role installs it (docs/heat-plugin.md).
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const clients = fileURLToPath(new URL('../../clients', import.meta.url));

/**
 * Installs the plug-in, and restarts heat-engine if any file has changed.
 * @param start - path of the program `start-heat`. It starts the services of Heat again if they
 * have ended
 * @param url - URL of the bridge
 * @param caFile - CA certificates that verify the bridge. Default: those of the system
 */
export async function installPlugin(
  directory: string,
  start: string,
  url: string,
  caFile?: string,
): Promise<void> {
  const modules = readdirSync(path.join(clients, 'heat')).filter((it) => it.endsWith('.py'));
  const files = [
    ...modules.map((it) => path.join(clients, 'heat', it)),
    path.join(clients, 'python', 'saltbridge_bridge.py'),
  ];
  const changed = [
    ...files.map((it) =>
      write(path.join(directory, 'etc/plugins', path.basename(it)), readFileSync(it, 'utf8')),
    ),
    write(
      path.join(directory, 'home/.heat/heat-engine.conf.d/saltbridge.conf'),
      `[clients_saltbridge]\nurl = ${url}\n${caFile === undefined ? '' : `ca_file = ${caFile}\n`}`,
    ),
  ];
  if (!changed.includes(true)) return;
  await restartEngine(directory, start);
}

/**
 * Ends heat-engine and starts it again. @param signal - signal that ends it. With SIGKILL, it
 * cannot complete its work
 */
export async function restartEngine(
  directory: string,
  start: string,
  signal: 'SIGKILL' | 'SIGTERM' = 'SIGTERM',
): Promise<void> {
  const [pid] = readFileSync(path.join(directory, 'run/heat-engine.pid'), 'utf8').split(' ');
  await end(Number(pid), signal);
  await promisify(execFile)(start, [directory]);
}

/** Writes a file. Returns whether its content has changed. */
function write(file: string, text: string): boolean {
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return false;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  return true;
}

async function end(pid: number, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  process.kill(pid, signal);
  for (let waited = 0; isAlive(pid); waited += 100) {
    if (waited > 30_000) throw new Error(`heat-engine (${pid}) did not end within 30 s`);
    await sleep(100);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
