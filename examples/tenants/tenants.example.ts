import { copyFileSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadSaltConfig } from '#config';
import { createLogger } from '#master';
import type { Minion } from '#minion-protocol';
import { type MasterServer, serve } from '#server';
import { removeSite, type Site, writeSite } from '../control-plane.ts';
import { EmbeddedMinions } from '../embedded-minions.ts';
import { type Example, eventually, program, refusalOf, type Step } from '../example.ts';

const sources = fileURLToPath(new URL('../../examples/tenants', import.meta.url));

type Name = 'red' | 'blue';

/** Two masters in one process, for two tenants. No tenant may read data of the other's minions. */
export const tenants: Example = {
  description: 'two tenants in one process, each with its own keys, policy, store and ports',
  needs: () => [program('openssl', 'openssl')],
  run: async (step) => {
    const directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
    const red = await writeSite({ sources: path.join(sources, 'red'), users: [] });
    const blue = await writeSite({ sources: path.join(sources, 'blue'), users: [] });
    const host = new Host(step, directory, { red, blue });
    try {
      await host.start();
      await host.connect();
      await host.runJob();
      await host.fireEvents();
      await host.showForeignKey();
      await host.copyTenant();
      await host.closeOne();
    } finally {
      await host.close();
      for (const it of [{ directory }, red, blue]) removeSite(it);
    }
  },
};

class Host {
  readonly #step: Step;
  readonly #directory: string;
  readonly #sites: Readonly<Record<Name, Site>>;
  readonly #servers = new Map<Name, MasterServer>();
  readonly #minions = new EmbeddedMinions();
  readonly #fleet = new Map<Name, Minion>();
  /** Names of the tenants whose minion has run a job, in order. */
  readonly #ran: Name[] = [];

  constructor(step: Step, directory: string, sites: Readonly<Record<Name, Site>>) {
    this.#step = step;
    this.#directory = directory;
    this.#sites = sites;
  }

  #server(name: Name): MasterServer {
    const found = this.#servers.get(name);
    if (found === undefined) throw new Error(`${name} has not been started`);
    return found;
  }

  /** Writes the main configuration file. It contains only the directories of the tenants. */
  #writeMainFile(tenantDirectories: Readonly<Record<string, string>>): void {
    const config = { saltbridge: { tenants: tenantDirectories } };
    writeFileSync(path.join(this.#directory, 'master'), JSON.stringify(config));
  }

  async start(): Promise<void> {
    const { red, blue } = this.#sites;
    this.#writeMainFile({ red: red.directory, blue: blue.directory });
    await this.#step(
      'one process serves both tenants, like `saltbridge master`',
      async () => {
        const { tenants: configs = [] } = await loadSaltConfig(this.#directory);
        for (const { name, ...config } of configs) {
          const logger = createLogger('error', process.stderr).child({ tenant: name });

          this.#servers.set(name === 'red' ? 'red' : 'blue', await serve({ config, logger }));
        }
        return [...this.#servers.keys()];
      },
      (names) => names.join() === 'red,blue',
    );
  }

  async connect(): Promise<void> {
    await this.#step(
      'each tenant has a minion web1, with different keys',
      async () => {
        for (const name of ['red', 'blue'] as const) {
          const { minion, connected } = await this.#minions.start(this.#sites[name], 'web1', {
            'shop.restart': () => {
              this.#ran.push(name);
              return true;
            },
          });
          await this.#server(name).master.keys.accept({ match: 'web1' });
          await connected;
          this.#fleet.set(name, minion);
        }
        return Promise.all(['red' as const, 'blue' as const].map((it) => this.#fingerprint(it)));
      },
      ([red, blue]) => red !== undefined && red !== blue,
    );
  }

  async #fingerprint(name: Name): Promise<string | undefined> {
    const [key] = await this.#server(name).master.keys.list();
    return key?.fingerprint;
  }

  async runJob(): Promise<void> {
    await this.#step(
      'a job of red for all minions reaches only the minion of red',
      async () => {
        const { jobs } = this.#server('red').master;
        for await (const update of jobs.run({ tgt: '*', fun: 'shop.restart' })) {
          if (update.type === 'finished') return [update.answered, this.#ran];
        }
        return [];
      },
      (value) => JSON.stringify(value) === '[["web1"],["red"]]',
    );
    await this.#step(
      'blue does not have this job',
      async () => (await this.#server('blue').master.jobs.list()).map(({ fun }) => fun),
      (functions) => !functions.includes('shop.restart'),
    );
  }

  async fireEvents(): Promise<void> {
    await this.#step(
      'the policy of red permits an event that the policy of blue denies',
      async () => {
        for (const minion of this.#fleet.values()) await minion.fire('shop/ready', {});
        return await eventually('the denial', async () => {
          const denials = await this.#server('blue').master.events.denials();
          return denials.length === 0 ? undefined : denials.map(({ tag }) => tag);
        });
      },
      (denied) => denied.join() === 'shop/ready',
    );
    await this.#step(
      'red has no denials',
      async () => this.#server('red').master.events.denials(),
      (denials) => denials.length === 0,
    );
  }

  async showForeignKey(): Promise<void> {
    await this.#step(
      'at the port of blue, the minion of red is rejected: its id has another key there',
      async () => {
        const { directory } = this.#sites.red;
        const { requestPort } = this.#sites.blue;
        void this.#minions.start({ directory, requestPort }, 'web1').catch(() => {});
        return await eventually('the denied key', async () => {
          const keys = await this.#server('blue').master.keys.list();
          return keys.length < 2 ? undefined : keys.map(({ id, state }) => `${id} ${state}`);
        });
      },
      (keys) => keys.toSorted().join() === 'web1 accepted,web1 denied',
    );
  }

  async copyTenant(): Promise<void> {
    await this.#step(
      'a third tenant with a copy of the configuration of red is rejected before it opens any file',
      async () => {
        const red = this.#sites.red.directory;
        const green = path.join(this.#directory, 'green');
        mkdirSync(green);
        copyFileSync(path.join(red, 'master'), path.join(green, 'master'));
        this.#writeMainFile({ red, green });
        return await refusalOf(loadSaltConfig(this.#directory));
      },
      (refusal) => refusal.startsWith('ERR_OPTION_CONFLICT ') && /red.*green/s.test(refusal),
    );
  }

  async closeOne(): Promise<void> {
    await this.#step(
      'blue is closed, and red continues',
      async () => {
        await this.#server('blue').close();
        this.#servers.delete('blue');
        const { jobs } = this.#server('red').master;
        for await (const update of jobs.run({ tgt: 'web1', fun: 'test.ping' })) {
          if (update.type === 'return') return update.return;
        }
        return false;
      },
      Boolean,
    );
  }

  async close(): Promise<void> {
    await this.#minions.close();
    await Promise.all([...this.#servers.values()].map((it) => it.close()));
  }
}
