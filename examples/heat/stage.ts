/** A master with a bridge and embedded minions, for the examples with Heat. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { allow } from '#acl';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition } from '#heat-bridge';
import type { Master } from '#master';
import {
  createMinion,
  createMinionKeys,
  dialZeromq,
  type Minion,
  type MinionKeys,
} from '#minion-protocol';
import {
  type EmbeddedMaster,
  freeSaltPorts,
  type SaltPorts,
  startEmbeddedMaster,
} from '../control-plane.ts';
import type { CloudDescription } from './cloud.ts';

const textParameters = {
  type: 'object',
  required: ['text'],
  properties: { text: { type: 'string', maxLength: 100, pattern: '^[a-z0-9-]+$' } },
};

/** Commands of the catalog. The minions implement their functions (see below). */
const commands: readonly CommandDefinition[] = [
  {
    name: 'demo.write',
    description: 'Remembers a text.',
    function: 'demo.write',
    reviewed: 'made for the examples: it keeps a text in memory',
    parameters: textParameters,
  },
  {
    name: 'demo.remove',
    description: 'Forgets a text.',
    function: 'demo.remove',
    reviewed: 'made for the examples: it keeps a text in memory',
    parameters: {
      type: 'object',
      required: ['text'],
      properties: { text: { type: 'string', maxLength: 100 } },
    },
  },
  {
    name: 'demo.fail',
    description: 'Fails as a program does: with text on stderr.',
    function: 'demo.fail',
    reviewed: 'made for the examples: it does nothing',
    parameters: { type: 'object', properties: {} },
    success: { type: 'object', properties: { retcode: { const: 0 } }, additionalProperties: true },
  },
  {
    name: 'demo.slow',
    description: 'Runs until it is stopped.',
    function: 'demo.slow',
    reviewed: 'made for the examples: it waits',
    parameters: { type: 'object', properties: {} },
    timeoutSeconds: 300,
  },
  {
    name: 'demo.program',
    description: 'Runs a program that writes to stdout and stderr, and exits with the given code.',
    function: 'cmd.run_all',
    unsafe: 'i-understand',
    parameters: {
      type: 'object',
      properties: { exit: { type: 'string', pattern: '^[03]$', default: '0' } },
    },
    arguments: {
      cmd: { value: 'echo done; echo "disk full" >&2; exit $CODE' },
      env: { map: { CODE: { parameter: 'exit' } } },
      python_shell: { value: true },
    },
    success: { type: 'object', properties: { retcode: { const: 0 } }, additionalProperties: true },
  },
];

const plans = [
  {
    name: 'demo.write-twice',
    description: 'Remembers a text, on one group after the other.',
    parameters: textParameters,
    groups: { first: {}, second: {} },
    steps: {
      first: { command: 'demo.write', group: 'first', undo: { command: 'demo.remove' } },
      second: {
        command: 'demo.write',
        group: 'second',
        needs: ['first'],
        undo: { command: 'demo.remove' },
      },
    },
  },
  {
    name: 'demo.write-slowly',
    description: 'Remembers a text, and waits.',
    parameters: textParameters,
    groups: { all: {} },
    steps: {
      write: { command: 'demo.write', group: 'all', undo: { command: 'demo.remove' } },
      wait: { command: 'demo.slow', group: 'all', needs: ['write'], params: {} },
    },
  },
];

/**
 * Returns the URL of the bridge. The port is always the same for a cloud, so that heat-engine must
 * be configured only once.
 */
export function bridgeUrlOf({ keystone }: Pick<CloudDescription, 'keystone'>): string {
  return `http://127.0.0.1:${Number(new URL(keystone).port) + 80}`;
}

/**
 * A master and its minions. If the master is stopped, the directory, the ports and the minions are
 * kept for its next start.
 */
export class Stage {
  /** Calls of the minions' functions, in the form `id function text`. */
  readonly calls: string[] = [];
  readonly url: string;
  readonly minions: Minion[] = [];
  /** Abort it to end all running calls of `demo.slow`. */
  slow: AbortController = new AbortController();
  readonly #cloud: CloudDescription;
  readonly #directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
  #ports: SaltPorts | undefined;
  #running: EmbeddedMaster | undefined;

  constructor(cloud: CloudDescription) {
    this.#cloud = cloud;
    this.url = bridgeUrlOf(cloud);
  }

  /** Ports of the master for its minions. */
  get ports(): SaltPorts {
    if (this.#ports === undefined) throw new Error('the master has not been started');
    return this.#ports;
  }

  get master(): Master {
    if (this.#running === undefined) throw new Error('the master is not running');
    return this.#running.master;
  }

  get bridge(): Bridge {
    if (this.#running === undefined) throw new Error('the master is not running');
    return this.#running.bridge;
  }

  /** Starts the master for the first time, or again after {@link stop}. */
  async start(): Promise<void> {
    this.#ports ??= await freeSaltPorts();
    const { keystone, users } = this.#cloud;
    this.#running = await startEmbeddedMaster({
      directory: this.#directory,
      ports: this.#ports,
      apiPort: Number(new URL(this.url).port),
      bridge: createBridge({ commands, plans }),
      rules: [
        allow('demo runs commands', {
          subject: { project: 'demo', role: 'member' },
          action: 'command',
          resource: { fun: 'demo.*', within: 'web-* or saltbridge-* or salt-*' },
        }),
        allow('deployments run commands', {
          subject: { service: 'deployments' },
          action: 'command',
          resource: { fun: 'demo.*', within: 'web-*' },
        }),
        allow('demo enrols machines', {
          subject: { project: 'demo', role: 'member' },
          action: 'command',
          resource: { fun: 'bridge.enroll.*', arguments: [{ kwargs: { id: 'saltbridge-*' } }] },
        }),
      ],
      options: {
        autoAccept: true,
        bridge: {
          enroll: {},
          deployments: { poll_interval: 2 },
          handles: { endpoints: [keystone, this.#cloud.heat_api] },
          keystone: {
            url: keystone,
            username: 'admin',
            password: users.admin.password,
            project: 'admin',
          },
        },
      },
    });
  }

  /** Stops the master. Its directory and its minions remain. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.close();
  }

  /** Starts a minion. @param keys - keys of the minion. Default: new keys */
  async startMinion(id: string, keys?: MinionKeys): Promise<Minion> {
    const { requestPort } = this.ports;
    const remember = (fun: string, text: unknown): string => {
      this.calls.push(`${id} ${fun} ${String(text)}`);
      return `${id} ${fun} ${String(text)}`;
    };
    const minion = createMinion({
      id,
      keys: keys ?? (await createMinionKeys()),
      transport: dialZeromq({ host: '127.0.0.1', requestPort }),
      functions: {
        'demo.write': ({ kwargs: { text } }) => remember('write', text),
        'demo.remove': ({ kwargs: { text } }) => remember('remove', text),
        // A run that is cancelled calls this function. Embedded minions do not have it by default.
        'saltutil.term_job': ({ kwargs: { jid } }, { kill }) => kill(String(jid)),
        'demo.slow': async (_call, { signal }) => {
          remember('slow', '');
          const end = AbortSignal.any([this.slow.signal, signal]);
          if (!end.aborted) await once(end, 'abort');
          if (signal.aborted) remember('killed', '');
          return 'done';
        },
        'demo.fail': () => {
          remember('fail', '');
          return { stdout: '', stderr: 'disk full', retcode: 3 };
        },
      },
    });
    this.minions.push(minion);
    await minion.start();
    return minion;
  }

  async close(): Promise<void> {
    await Promise.all(this.minions.map((minion) => minion.stop()));
    await this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
