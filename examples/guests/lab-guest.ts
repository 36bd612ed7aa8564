/** The machine in one of the two networks, and its minion. */

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';
import type { MinionConfig } from '#heat-bridge';
import { keyFingerprint } from '#minion-protocol';
import { readUserData } from '../machine.ts';
import { minionConfigIn } from '../minion-folder.ts';
import type { LabNetwork, NetworkLab } from './network-lab.ts';

const embedded = fileURLToPath(new URL('embedded-minion.ts', import.meta.url));
const metadataUrl = 'http://169.254.169.254';

export class LabGuest {
  readonly network: LabNetwork;
  readonly #lab: NetworkLab;
  // The path is short, because the length of the paths of a minion's sockets is limited.
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'g-'));
  #config: MinionConfig = {};
  #ticket = '';
  #minion: ChildProcess | undefined;

  constructor(lab: NetworkLab, network: LabNetwork) {
    this.#lab = lab;
    this.network = network;
  }

  /** Id of the machine's minion, according to its user-data. */
  get id(): string {
    return String(this.#config.id);
  }

  /**
   * Sends a request to the metadata agent with curl, as programs on the machine do. Returns the
   * response.
   */
  curl(what: string, ...options: readonly string[]): Promise<string> {
    const url = what.startsWith('http') ? what : `${metadataUrl}/${what}`;
    return this.#lab.run(this.network, 'curl', '-s', '-g', ...options, url);
  }

  /** Sends a request like {@link curl}, and returns the HTTP status. */
  status(what: string, ...options: readonly string[]): Promise<string> {
    return this.curl(what, '-o', '/dev/null', '-w', '%{http_code}', ...options);
  }

  mac(): Promise<string> {
    return this.#lab.run(this.network, 'cat', '/sys/class/net/e0/address').then((it) => it.trim());
  }

  /** Reads the user-data as cloud-init does: the configuration of the minion, and its ticket. */
  async readUserData(): Promise<{ readonly id: string; readonly master: unknown }> {
    const text = await this.curl('saltbridge/v1/user-data');
    const { configs, scripts } = await readUserData(text);
    this.#config = configs.find((it) => it.salt_minion !== undefined)?.salt_minion?.conf ?? {};
    [, this.#ticket = ''] = /ticket='([^']+)'/.exec(scripts.join()) ?? [];
    return { id: this.id, master: this.#config.master };
  }

  /**
   * Starts the minion, which generates its key.
   * @param program - program of the minion. Default: the minion of the library
   */
  async startMinion(program: string | undefined, requestPort: number): Promise<void> {
    const folder = this.#folder;
    mkdirSync(path.join(folder, 'salt'));
    mkdirSync(path.join(folder, 's'));
    const config = { ...minionConfigIn(folder), pki_dir: `${folder}/pki`, ...this.#config };
    writeFileSync(path.join(folder, 'salt/minion'), stringify(config));
    const { master } = this.#config;
    const line =
      program === undefined
        ? [process.execPath, embedded, this.id, folder, String(master), String(requestPort)]
        : [program, '-c', path.join(folder, 'salt'), '-l', 'quiet'];
    // With `setpriv`, the minion is killed when this process ends for any reason.
    const args = ['netns', 'exec', this.#lab.guest(this.network), 'setpriv', '--pdeathsig', 'KILL'];
    this.#minion = spawn('ip', [...args, ...line], { stdio: 'ignore', detached: true });
    await eventually('a key of the minion', async () => existsSync(`${folder}/pki/minion.pub`));
  }

  /** Claims the minion's identity with the ticket, through the agent. Returns the response. */
  claim(): Promise<string> {
    const key = readFileSync(path.join(this.#folder, 'pki/minion.pub'), 'utf8');
    const fingerprint = keyFingerprint(key, 'sha256');
    const body = JSON.stringify({ ticket: this.#ticket, id: this.id, fingerprint });
    return this.curl('saltbridge/v1/enroll/claim', '--data-binary', body);
  }

  async close(): Promise<void> {
    const minion = this.#minion;
    if (minion?.pid !== undefined && minion.exitCode === null) {
      const end = new Promise((resolve) => minion.once('exit', resolve));
      // The negative id also ends the processes that the minion has started.
      process.kill(-minion.pid, 'SIGKILL');
      await end;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Waits up to a minute until a condition is met.
 * @throws Error that contains the expected condition
 */
export async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 240; tries += 1) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`${what}: the condition was not met within a minute`);
}
