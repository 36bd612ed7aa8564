import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { loadSaltConfig } from '#config';
import { createLogger } from '#master';
import { generateKeyPair, type Minion, openMinionKeys } from '#minion-protocol';
import { type MasterServer, serve } from '#server';
import { checkMigration, type MigrationReport, policyText } from '#server/ops.ts';
import { freePort } from '../../bench/free-port.ts';
import { removeSite } from '../control-plane.ts';
import { EmbeddedMinions } from '../embedded-minions.ts';
import { type Example, eventually, type Step } from '../example.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const sources = path.join(root, 'examples/from-salt-master');

/** A team replaces salt-master with saltbridge. Configuration, files and keys stay unchanged. */
export const fromSaltMaster: Example = {
  description:
    'migration from salt-master: report, policy, start with the same keys, and the way back',
  needs: () => [],
  run: async (step) => {
    const move = new Move(step);
    try {
      await move.lay();
      await move.check();
      await move.start();
      await move.react();
      await move.useSaltsCommands();
      await move.goBack();
    } finally {
      await move.close();
    }
  },
};

class Move {
  readonly #step: Step;
  readonly #directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
  readonly #minions = new EmbeddedMinions();
  #requestPort = 0;
  #server: MasterServer | undefined;
  #minion: Minion | undefined;
  #keyFiles: readonly string[] = [];
  readonly #reloaded: unknown[] = [];

  constructor(step: Step) {
    this.#step = step;
  }

  get #etc(): string {
    return this.#at('etc/salt');
  }

  #at(name: string): string {
    return path.join(this.#directory, name);
  }

  #running(): MasterServer {
    if (this.#server === undefined) throw new Error('the master has not been started');
    return this.#server;
  }

  /** Creates the files that a salt-master and an accepted minion would have left. */
  async lay(): Promise<void> {
    await this.#step(
      'create what a salt-master leaves: configuration, its key, and the key of an accepted minion',
      async () => {
        cpSync(sources, this.#directory, { recursive: true });
        this.#requestPort = await freePort();
        const here = {
          root_dir: this.#directory,
          ret_port: this.#requestPort,
          publish_port: await freePort(),
          sock_dir: this.#at('s'),
        };
        writeFileSync(path.join(this.#etc, 'master.d/this-machine.conf'), JSON.stringify(here));
        for (const name of ['master', 'master.d/reactor.conf']) {
          const file = path.join(this.#etc, name);
          writeFileSync(file, readFileSync(file, 'utf8').replaceAll('/srv/', this.#at('srv/')));
        }
        mkdirSync(this.#at('etc/salt/pki/master/minions'), { recursive: true });
        const master = await generateKeyPair(2048);
        const keys = await openMinionKeys(this.#at('minions/web1'));
        await keys.trustMaster(master.publicPem.trim());
        const files = {
          'master.pem': master.privatePem,
          'master.pub': master.publicPem,
          'minions/web1': keys.publicPem,
        };
        for (const [name, text] of Object.entries(files)) {
          writeFileSync(path.join(this.#etc, 'pki/master', name), text, {
            mode: name === 'master.pem' ? 0o400 : 0o644,
          });
        }
        this.#keyFiles = keyFilesBelow(path.join(this.#etc, 'pki/master'));
        return this.#keyFiles.map((it) => it.split(' ')[0]);
      },
    );
  }

  async check(): Promise<void> {
    const report = await this.#step(
      '`saltbridge migrate check` reports the effect of each option, and what to do',
      async () => withoutText(await checkMigration(this.#etc)),
      ({ findings }) =>
        findings.some(
          ({ name, outcome, remedy }) =>
            name === 'event_return' && outcome === 'refused' && remedy.includes('event_export'),
        ),
    );
    await this.#step(
      'it also prints the rules that the reactor needs, as a file for master.d',
      async () => {
        const policy = policyText(report);
        writeFileSync(path.join(this.#etc, 'master.d/policy.conf'), policy);
        return policy.split('\n').filter((line) => !line.startsWith('#'));
      },
      (lines) => lines.some((it) => it.includes('shop/deployed')),
    );
  }

  async start(): Promise<void> {
    await this.#step('start saltbridge with the same configuration directory', async () => {
      const logger = createLogger('critical', process.stderr);
      this.#server = await serve({ config: await loadSaltConfig(this.#etc), logger });
    });
    await this.#step('the minion reconnects; its key is already accepted', async () => {
      const site = { directory: this.#directory, requestPort: this.#requestPort };
      const { minion, connected } = await this.#minions.start(site, 'web1', {
        'service.reload': ({ args, kwargs }) => {
          this.#reloaded.push(kwargs.name ?? args[0]);
          return true;
        },
      });
      await connected;
      this.#minion = minion;
    });
    await this.#step(
      'the minion gets its pillar from the same files',
      async () => this.#running().master.pillar.show({ minion: 'web1' }),
      (pillar) => JSON.stringify(pillar) === '{"shop":{"port":8080,"name":"web1.example.org"}}',
    );
  }

  async react(): Promise<void> {
    await this.#step(
      'an event of the minion still triggers the reactor file',
      async () => {
        await this.#minion?.fire('shop/deployed', {});
        return eventually('the job of the reactor', () => this.#reloaded[0]);
      },
      (name) => name === 'shop',
    );
    await this.#step(
      'an event that no reactor uses is now denied',
      async () => {
        await this.#minion?.fire('shop/anything', {});
        return eventually('the denial', async () => {
          const denials = await this.#running().master.events.denials();
          return denials.length === 0 ? undefined : denials.map(({ tag }) => tag);
        });
      },
      (tags) => tags.join() === 'shop/anything',
    );
  }

  async useSaltsCommands(): Promise<void> {
    for (const [argv, expected] of [
      [['salt', '-N', 'web', 'test.ping'], 'web1:\n    True\n'],
      [['salt-key', '-l', 'acc', '--out=json'], '{\n    "minions": [\n        "web1"\n    ]\n}\n'],
      [['salt-run', 'manage.up'], '- web1\n'],
    ] as const) {
      await this.#step(
        `\`saltbridge ${argv.join(' ')}\` prints what Salt prints`,
        async () => {
          const all = [path.join(root, 'bin/saltbridge'), ...argv, '-c', this.#etc];
          return (await promisify(execFile)(process.execPath, all)).stdout;
        },
        (text) => text === expected,
      );
    }
  }

  async goBack(): Promise<void> {
    await this.#step(
      'after saltbridge has stopped, the key directory is unchanged: salt-master can use it again',
      async () => {
        await this.#minions.close();
        await this.#running().close();
        this.#server = undefined;
        return keyFilesBelow(path.join(this.#etc, 'pki/master')).map((it) => it.split(' ')[0]);
      },
      () =>
        JSON.stringify(keyFilesBelow(path.join(this.#etc, 'pki/master'))) ===
        JSON.stringify(this.#keyFiles),
    );
  }

  async close(): Promise<void> {
    await this.#minions.close();
    await this.#server?.close();
    removeSite({ directory: this.#directory });
  }
}

/** Returns a line `<path> <mode> <content>` for each key file. */
function keyFilesBelow(directory: string): readonly string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(path.join(directory, name)).isFile())
    .map((name) => {
      const file = path.join(directory, name);
      return `${name} ${statSync(file).mode} ${readFileSync(file, 'base64')}`;
    })
    .sort();
}

/**
 * Returns a report that is printed as its findings with a remedy, because each step prints its
 * result.
 */
function withoutText(report: MigrationReport): MigrationReport {
  const toJSON = () =>
    report.findings
      .filter(({ remedy }) => remedy !== '')
      .map(({ outcome, name, remedy }) => `${outcome} ${name}: ${remedy}`);
  return Object.assign(report, { toJSON });
}
