import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../../bench/free-port.ts';
import { type Example, program, type Step } from '../example.ts';
import { GuestPlane } from '../guests/guest-plane.ts';

const joinPeers = fileURLToPath(new URL('../../examples/gossip/join-peers', import.meta.url));
const guestCount = 20;
const network = randomUUID();

/**
 * A cluster whose members communicate by gossip. They find each other only through the data space
 * of peers.
 */
export const gossip: Example = {
  description:
    'twenty guests form a Serf cluster (gossip); they know only the addresses of their peers',
  needs: () => [program('serf', 'serf'), program('python3', 'python3')],
  run: async (step) => {
    const port = await freePort();
    const plane = await step(
      'start a master, and a metadata agent in a tenant network',
      async () => {
        const networks = [{ network, addresses: ['127.0.0.1'], port }];
        return withoutText(await GuestPlane.start(() => ({ networks, relay: undefined })));
      },
    );
    const cluster = new Cluster(plane, `127.0.0.1:${port}`);
    try {
      await runSteps(step, cluster);
    } finally {
      await cluster.close();
      await plane.close();
    }
  },
};

async function runSteps(step: Step, cluster: Cluster): Promise<void> {
  const isOne = (sizes: readonly number[]): boolean =>
    sizes.length === guestCount && sizes.every((it) => it === guestCount);
  await step(
    `${guestCount} instances of one project enrol by their identity, and one instance of another project`,
    () => cluster.enrol(),
    (answers) => answers.every((it) => it === 200),
  );
  await step(
    'each guest starts Serf with the addresses of its peers',
    async () => cluster.startAll(),
    (started) => started === guestCount,
  );
  await step(
    `each guest lists all ${guestCount} as members: they form one cluster`,
    () => cluster.sizes(guestCount, guestCount),
    isOne,
  );
  await step(
    'the instance of the other project is not a member',
    () => cluster.members(0),
    (members) => !members.includes(cluster.strangerId),
  );
  await step(
    'one guest fails, and the others notice it',
    async () => {
      await cluster.kill(guestCount - 1);
      return cluster.sizes(guestCount - 1, guestCount - 1);
    },
    (sizes) => sizes.length === guestCount - 1 && sizes.every((it) => it === guestCount - 1),
  );
  await step(
    'the guest starts again, and rejoins through its peers',
    async () => {
      cluster.start(guestCount - 1);
      return cluster.sizes(guestCount, guestCount);
    },
    isOne,
  );
}

/** Guests. Each is a process with its own address on this machine. */
class Cluster {
  readonly strangerId: string = randomUUID();
  readonly #metadata: string;
  readonly #ids: readonly string[] = Array.from({ length: guestCount }, () => randomUUID());
  readonly #processes = new Map<number, ChildProcess>();

  constructor(plane: GuestPlane, metadata: string) {
    this.#metadata = metadata;
    for (const [index, id] of this.#ids.entries()) {
      plane.add({ id, name: `node-${index}`, project: 'p1', network, address: addressOf(index) });
    }
    const address = addressOf(guestCount);
    plane.add({ id: this.strangerId, name: 'stranger', project: 'p2', network, address });
  }

  /**
   * Enrols all guests as their user-data would: each gets a ticket for its identity and then claims
   * it.
   * @returns the HTTP statuses
   */
  async enrol(): Promise<readonly number[]> {
    const all = Array.from({ length: guestCount + 1 }, (_, index) => this.#enrolOne(index));
    return Promise.all(all);
  }

  async #enrolOne(index: number): Promise<number> {
    const { text } = await this.#ask(index, 'GET', 'user-data');
    const [, ticket] = /ticket='([^']+)'/.exec(text) ?? [];
    const isGuest = index < guestCount;
    const id = isGuest ? `node-${index}.p1` : 'stranger.p2';
    const fingerprint = index.toString(16).padStart(64, '0');
    const claim = JSON.stringify({ ticket, id, fingerprint });
    return (await this.#ask(index, 'POST', 'enroll/claim', claim)).status;
  }

  startAll(): number {
    for (const index of this.#ids.keys()) this.start(index);
    return this.#processes.size;
  }

  start(index: number): void {
    const env = { PATH: process.env.PATH ?? '', METADATA: this.#metadata };
    // With `setpriv`, the guest is killed when this process ends for any reason.
    const guest = spawn('setpriv', ['--pdeathsig', 'KILL', 'python3', joinPeers], {
      stdio: 'ignore',
      env: { ...env, OWN_ADDRESS: addressOf(index), GOMAXPROCS: '1' },
    });
    this.#processes.set(index, guest);
  }

  async kill(index: number): Promise<void> {
    const guest = this.#processes.get(index);
    if (guest === undefined) return;
    this.#processes.delete(index);
    const end = once(guest, 'exit');
    guest.kill('SIGKILL');
    await end;
  }

  /**
   * Returns the number of members that each of some guests has found, as soon as it is the expected
   * number.
   */
  async sizes(count: number, expected: number): Promise<readonly number[]> {
    const sizes: number[] = [];
    for (let index = 0; index < count; index += 1) {
      let size = -1;
      for (let tries = 0; tries < 240 && size !== expected; tries += 1) {
        if (tries > 0) await new Promise((resolve) => setTimeout(resolve, 250));
        size = (await this.members(index)).length;
      }
      sizes.push(size);
    }
    return sizes;
  }

  /** Returns the members that a guest considers alive. Empty before the guest has started. */
  async members(index: number): Promise<readonly string[]> {
    const rpc = `-rpc-addr=${addressOf(index)}:7373`;
    try {
      const run = promisify(execFile);
      const { stdout } = await run('serf', ['members', rpc, '-status=alive', '-format=json']);
      const { members }: { members: { name: string }[] } = JSON.parse(stdout);
      return members.map(({ name }) => name);
    } catch {
      return [];
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#processes.keys()].map((index) => this.kill(index)));
  }

  /** Sends a request in the name of a guest, from the guest's own address. */
  #ask(
    index: number,
    method: string,
    what: string,
    body?: string,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const url = `http://${this.#metadata}/saltbridge/v1/${what}`;
    return new Promise((resolve, reject) => {
      const options = { method, localAddress: addressOf(index), agent: false };
      const request = http.request(url, options, (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.once('end', () => resolve({ status: response.statusCode ?? 0, text }));
      });
      request.once('error', reject);
      request.end(body);
    });
  }
}

function addressOf(index: number): string {
  return `127.0.20.${index + 1}`;
}

/** Returns a guest plane that is printed as a short text, because steps print their results. */
function withoutText(plane: GuestPlane): GuestPlane {
  return Object.assign(plane, { toJSON: () => plane.folder });
}
