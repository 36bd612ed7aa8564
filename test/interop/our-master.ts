/**
 * Our master for interoperability tests, in this process or in a separate process that can be
 * killed.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { connectMaster } from '#client';
import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';
import { createLogger, type MasterApi, type PillarProvider } from '#master';
import { type CreateMasterOptions, createMaster } from '#server';
import { freePort } from '../../bench/free-port.ts';
import { within } from '../helpers/deadline.ts';
import { ProcessGroup } from './process-group.ts';
import type { MasterPorts } from './real-minion.ts';

/** A running master. */
export interface OurMaster {
  readonly api: MasterApi;
  /**
   * Ids that have signed in since the start, from the log. Events can only be followed from a
   * moment after the start.
   */
  readonly signIns: readonly string[];
  close(): Promise<void>;
}

/** A master in a separate process. */
export interface MasterProcess extends OurMaster {
  /** Kills the process with SIGKILL. */
  kill(): Promise<void>;
}

/** Directories and ports of a master, which outlive its process. */
export class MasterHome {
  readonly directory: string;
  readonly ports: MasterPorts;
  readonly #more: Partial<MasterOptions>;

  private constructor(ports: MasterPorts, more: Partial<MasterOptions>, directory: string) {
    this.ports = ports;
    this.#more = more;
    this.directory = directory;
  }

  static async create(more: Partial<MasterOptions> = {}): Promise<MasterHome> {
    const [requestPort, publishPort] = [await freePort(), await freePort()];
    const directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
    mkdirSync(path.join(directory, 's'), { mode: 0o700 });
    return new MasterHome({ requestPort, publishPort }, more, directory);
  }

  get options(): Partial<MasterOptions> {
    return {
      interface: '127.0.0.1',
      retPort: this.ports.requestPort,
      publishPort: this.ports.publishPort,
      id: 'saltbridge-interop',
      pkiDir: path.join(this.directory, 'pki'),
      cachedir: path.join(this.directory, 'cache'),
      sockDir: path.join(this.directory, 's'),
      stateDir: path.join(this.directory, 'state'),
      ...this.#more,
    };
  }

  /** Returns the same place with further options. */
  with(more: Partial<MasterOptions>): MasterHome {
    return new MasterHome(this.ports, { ...this.#more, ...more }, this.directory);
  }

  startHere(
    pillar?: PillarProvider | null,
    parts: Pick<CreateMasterOptions, 'extensions' | 'tops'> = {},
  ): Promise<OurMaster> {
    return startMaster(resolveMasterConfig(this.options), pillar, parts);
  }

  async startProcess(): Promise<MasterProcess> {
    const program = fileURLToPath(new URL('./master-process.ts', import.meta.url));
    const args = [program, JSON.stringify(this.options)];
    const group = new ProcessGroup(process.execPath, args, ['ignore', 'pipe', 'inherit']);
    const log = new SignInLog();
    await within('the start of the master process', log.started(group));
    return {
      api: connectMaster({ socketPath: resolveMasterConfig(this.options).socket }),
      signIns: log.ids,
      close: async () => {
        group.terminate();
        await within('the end of the master process', group.exited);
        await group.kill();
      },
      kill: () => group.kill(),
    };
  }

  dispose(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/**
 * Starts a master in this process.
 * @param pillar - null: the pillar of its files
 */
export async function startMaster(
  config: MasterConfig,
  pillar: PillarProvider | null = async () => ({}),
  parts: Pick<CreateMasterOptions, 'extensions' | 'tops'> = {},
): Promise<OurMaster> {
  const log = new SignInLog();
  const master = createMaster({
    ...parts,
    config,
    ...(pillar === null ? {} : { pillar }),
    logger: createLogger('debug', log.stream()),
  });
  await master.start();
  return { api: master, signIns: log.ids, close: () => master.close() };
}

/** Collects sign-ins from the log of a master. */
class SignInLog {
  readonly ids: string[] = [];

  stream(): Writable {
    return new Writable({
      write: (line, _encoding, done) => {
        this.#take(String(line));
        done();
      },
    });
  }

  /**
   * Reads the log of a master's process. Resolves when the log reports that the master has started.
   */
  started({ child, exited }: ProcessGroup): Promise<void> {
    return new Promise((resolve, reject) => {
      exited.then((code) => reject(new Error(`the master's process ended: ${code}`)), reject);
      if (child.stdout === null) return;
      createInterface({ input: child.stdout }).on('line', (line) => {
        if (this.#take(line) === 'master started') resolve();
      });
    });
  }

  #take(line: string): string {
    const { msg, minion } = JSON.parse(line);
    if (msg === 'sign-in') this.ids.push(minion);
    return msg;
  }
}
