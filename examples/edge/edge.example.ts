import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connectExtension, type ExtensionClient } from '#client';
import { loadSaltConfig } from '#config';
import type { OrderInfo, ReleaseState, SiteStatus } from '#edge';
import { createLogger } from '#master';
import { type MasterServer, serve } from '#server';
import { removeSite, type Site, writeSite } from '../control-plane.ts';
import { EmbeddedMinions } from '../embedded-minions.ts';
import { type Example, eventually, program, type Step } from '../example.ts';
import { addressesOfLinks, openLink, type SiteLink } from './site-link.ts';

const sources = fileURLToPath(new URL('../../examples/edge', import.meta.url));
const saltbridge = fileURLToPath(new URL('../../bin/saltbridge', import.meta.url));
const names = ['north', 'east', 'south'] as const;

type Name = (typeof names)[number];

/** A centre and three sites. One site loses its link, continues, and reports afterwards. */
export const edge: Example = {
  description: 'a centre and three sites; one site works without its link, and reports afterwards',
  needs: () => [program('openssl', 'openssl')],
  run: async (step) => {
    const stage = await Stage.create(step);
    try {
      await stage.startCentre();
      await stage.joinSites();
      await stage.release();
      await stage.connectMinions();
      await stage.cutLink();
      await stage.returnLink();
      await stage.order();
    } finally {
      await stage.close();
    }
  },
};

/** A master with its configuration directory. */
interface Running {
  readonly site: Site;
  readonly server: MasterServer;
}

class Stage {
  readonly #step: Step;
  /** Directory of the source of releases and of the release keys. */
  readonly #directory: string;
  readonly #centre: Site;
  readonly #minions = new EmbeddedMinions();
  readonly #sites = new Map<Name, Running>();
  readonly #links = new Map<Name, SiteLink>();
  readonly #written: Site[] = [];
  #centreServer: MasterServer | undefined;
  /** Names of the sites whose spare database was promoted, in order. */
  readonly #promoted: Name[] = [];
  #jid = '';

  static async create(step: Step): Promise<Stage> {
    const directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
    const addresses = addressesOfLinks(names.length);
    const centre = await writeSite({ sources: path.join(sources, 'centre'), users: [], addresses });
    return new Stage(step, directory, centre);
  }

  private constructor(step: Step, directory: string, centre: Site) {
    this.#step = step;
    this.#directory = directory;
    this.#centre = centre;
    this.#written.push(centre);
  }

  async startCentre(): Promise<void> {
    const source = path.join(this.#directory, 'salt-sites');
    cpSync(path.join(sources, 'sites'), source, { recursive: true });
    const trees = {
      file_roots: { base: [path.join(source, 'files')] },
      pillar_roots: { base: [path.join(source, 'pillar')] },
      saltbridge: { bridge: { catalog: ['catalog/database.yml'] } },
    };
    writeFileSync(path.join(source, 'master'), JSON.stringify(trees));
    addOptions(this.#centre, { sites: { source } });
    await this.#step(
      'the centre starts, and its operator creates the release keys',
      async () => {
        this.#centreServer = await start(this.#centre);
        const files = await run(this.#centre, 'site', 'keys', 'init', this.#keys);
        return files.map((file) => path.basename(file));
      },
      (files) => files.length === 4,
    );
  }

  async joinSites(): Promise<void> {
    await this.#step(
      'three sites join with tickets',
      async () => {
        const lines: string[] = [];
        for (const name of names) lines.push(await this.#join(name));
        return lines;
      },
      (lines) => lines.every((line) => line.includes(' has joined https://')),
    );
  }

  async release(): Promise<void> {
    await this.#step(
      'a release is pushed: policy, files, pillar, catalog and an approved plan',
      () => run(this.#centre, 'site', 'push', '--key', path.join(this.#keys, 'targets.json')),
      (lines) => lines.some((line) => line.startsWith('1 releasing ')),
    );
    await this.#step(
      'all sites install the release, north first',
      () =>
        eventually('the release at all sites', async () => {
          const [release] = await this.#rpc().call<readonly ReleaseState[]>('releases.list');
          const isInstalled = release?.state === 'done' && release.installed === names.length;
          return isInstalled ? release.installed : undefined;
        }),
      (installed) => installed === names.length,
    );
  }

  async connectMinions(): Promise<void> {
    await this.#step(
      'each site has a spare database; its pillar comes from the release',
      async () => {
        const greetings: unknown[] = [];
        for (const name of names) {
          const { site } = this.#site(name);
          const id = `db.${name}`;
          const promote = (): boolean => this.#promoted.push(name) > 0;
          const functions = { 'database.promote': promote };
          const { connected } = await this.#minions.start(site, id, functions);
          const { master } = this.#site(name).server;
          await master.keys.accept({ match: id });
          await connected;
          const pillar = await master.pillar.show({ minion: id });
          greetings.push(pillar instanceof Map ? pillar.get('greeting') : pillar.greeting);
        }
        return greetings;
      },
      (greetings) => greetings.every((it) => it === 'one release for all sites'),
    );
  }

  async cutLink(): Promise<void> {
    await this.#step('the link of south is cut', async () => {
      this.#link('south').cut();
      return await this.#untilConnected('south', false);
    });
    await this.#step(
      'the operator of south runs a job there',
      async () => {
        const { jobs } = this.#site('south').server.master;
        for await (const update of jobs.run({ tgt: '*', fun: 'test.ping' })) {
          this.#jid = update.jid;
          if (update.type === 'finished') return update.answered;
        }
        return [];
      },
      (answered) => answered.join() === 'db.south',
    );
    await this.#step(
      'after 20 seconds without a link, south runs its approved plan',
      () => eventually('the plan', () => (this.#promoted.length > 0 ? this.#promoted : undefined)),
      (promoted) => promoted.join() === 'south',
    );
    await this.#step(
      'the centre has nothing of this yet',
      () => this.#arrived(),
      (arrived) => arrived.returns === 0 && arrived.plans === 0,
    );
  }

  async returnLink(): Promise<void> {
    await this.#step('the link returns', async () => {
      this.#link('south').mend();
      return await this.#untilConnected('south', true);
    });
    await this.#step(
      'the return of the job and the outcome of the plan are at the centre, once',
      async () => {
        await eventually('an empty log of south', async () => {
          const { log } = await this.#status('south');
          return Object.values(log).every(({ entries }) => entries === 0) ? true : undefined;
        });
        return await this.#arrived();
      },
      ({ returns, plans }) => returns === 1 && plans === 1 && this.#promoted.length === 1,
    );
  }

  async order(): Promise<void> {
    const id = await this.#step(
      'the operator of the centre orders a job at all sites',
      async () => (await run(this.#centre, 'site', 'order', 'job', '*', 'test.ping'))[0] ?? '',
      (order) => order !== '',
    );
    await this.#step(
      'the results of the three sites arrive',
      () => run(this.#centre, 'site', 'tail', id),
      (lines) => names.every((name) => lines.includes(`${name} done: 1 succeeded`)),
    );
    await this.#step(
      'the order is done',
      async () => (await this.#rpc().call<readonly OrderInfo[]>('orders'))[0]?.counts.done,
      (done) => done === names.length,
    );
  }

  async close(): Promise<void> {
    await this.#minions.close();
    await Promise.all([...this.#sites.values()].map(({ server }) => server.close()));
    await this.#centreServer?.close();
    for (const link of this.#links.values()) await link.close();
    for (const it of [{ directory: this.#directory }, ...this.#written]) removeSite(it);
  }

  get #keys(): string {
    return path.join(this.#directory, 'keys');
  }

  /** Joins and starts a site whose link to the centre can be cut. */
  async #join(name: Name): Promise<string> {
    const site = await writeSite({ sources: path.join(sources, 'site'), users: [] });
    this.#written.push(site);
    const port = Number(new URL(this.#centre.url).port);
    const link = await openLink(port, names.indexOf(name), this.#directory);
    this.#links.set(name, link);
    const { centre } = link;
    addOptions(site, { site: { name, centre, ca: this.#centre.certificate } });
    const [ticket = ''] = await run(this.#centre, 'site', 'ticket', name, '--url', centre);
    const [line = ''] = await run(site, 'site', 'join', ticket);
    this.#sites.set(name, { site, server: await start(site) });
    return `${line} (link: ${link.text})`;
  }

  #site(name: Name): Running {
    const found = this.#sites.get(name);
    if (found === undefined) throw new Error(`${name} has not joined`);
    return found;
  }

  #link(name: Name): SiteLink {
    const found = this.#links.get(name);
    if (found === undefined) throw new Error(`${name} has no link`);
    return found;
  }

  #rpc(): ExtensionClient {
    if (this.#centreServer === undefined) throw new Error('the centre has not been started');
    return rpcOf(this.#centreServer, 'site');
  }

  #status(name: Name): Promise<SiteStatus> {
    return rpcOf(this.#site(name).server, 'edge').call<SiteStatus>('status');
  }

  async #untilConnected(name: Name, isConnected: boolean): Promise<SiteStatus['log']> {
    return await eventually(`the ${isConnected ? 'return' : 'loss'} of the link`, async () => {
      const status = await this.#status(name);
      return status.isConnected === isConnected ? status.log : undefined;
    });
  }

  /** Counts the returns of the job of south and the outcomes of its plan at the centre. */
  async #arrived(): Promise<{ readonly returns: number; readonly plans: number }> {
    const count = async (query: object): Promise<number> => {
      const entries = await this.#rpc().call<readonly { value: { tag?: string } }[]>('entries', {
        name: 'south',
        ...query,
      });
      return entries.filter(({ value: { tag = 'plan' } }) => tag === 'plan').length;
    };
    const [returns, plans] = [{ kind: 'return', jid: this.#jid }, { kind: 'event' }].map(count);
    return { returns: (await returns) ?? 0, plans: (await plans) ?? 0 };
  }
}

/** Adds options under `saltbridge:` to a configuration directory. */
function addOptions({ directory }: Site, saltbridgeOptions: object): void {
  const file = path.join(directory, 'master.d', 'example.conf');
  writeFileSync(file, JSON.stringify({ saltbridge: saltbridgeOptions }));
}

async function start({ directory }: Site): Promise<MasterServer> {
  const logger = createLogger('error', process.stderr);
  return serve({ config: await loadSaltConfig(directory), logger });
}

function rpcOf({ master }: MasterServer, extension: string): ExtensionClient {
  return connectExtension({ socketPath: master.config.socket }, extension);
}

/** Runs a subcommand of `saltbridge`, and returns the lines of its output. */
async function run({ directory }: Site, ...args: readonly string[]): Promise<readonly string[]> {
  const command = [saltbridge, ...args, '-c', directory];
  const { stdout } = await promisify(execFile)(process.execPath, command);
  return stdout.trimEnd().split('\n');
}
