import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { encodeProxyHeader } from '#minion-protocol';
import { type Example, type Need, program, type Step } from '../example.ts';
import { GuestPlane } from './guest-plane.ts';
import { eventually, LabGuest } from './lab-guest.ts';
import { labNetworks, NetworkLab, relayProxyConfiguration } from './network-lab.ts';

/** Ids of the instances in the networks A and B, and of a second instance in network A. */
const instances = {
  A: '6f1e0c1a-2b3c-4d5e-8f90-a1b2c3d4e5f6',
  B: 'b0000000-2b3c-4d5e-8f90-a1b2c3d4e5f6',
  other: 'c0000000-2b3c-4d5e-8f90-a1b2c3d4e5f6',
} as const;
const projects = { A: 'p1', B: 'p2' } as const;

/** Two networks with the same addresses. Their machines can reach only the metadata address. */
export const guests: Example = {
  description:
    'two networks with the same address 10.0.0.5: metadata, enrolment, data spaces, relay',
  needs: guestNeeds,
  run: async (step) => {
    const lab = new NetworkLab();
    const scene = new Scene(step, lab);
    try {
      await scene.build();
      await scene.metadata();
      await scene.forge();
      await scene.enrol();
      await scene.peers();
      await scene.data();
      await scene.signals();
      await scene.relay();
    } finally {
      await scene.close();
      await lab.close();
    }
  },
};

function guestNeeds(): readonly Need[] {
  return [
    { name: 'network namespaces', isThere: canMakeNamespaces(), remedy: 'run it as root' },
    program('ip', 'iproute2'),
    program('haproxy', 'haproxy'),
    program('curl', 'curl'),
    program('nsenter', 'util-linux'),
    program('setpriv', 'util-linux'),
    program('python3', 'python3'),
  ];
}

function canMakeNamespaces(): boolean {
  const name = `saltbridge-probe-${process.pid}`;
  try {
    execFileSync('ip', ['netns', 'add', name], { stdio: 'ignore' });
    execFileSync('ip', ['netns', 'del', name], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

class Scene {
  readonly #step: Step;
  readonly #lab: NetworkLab;
  readonly #guests: { readonly A: LabGuest; readonly B: LabGuest };
  /** Programs in SALT_MINION. If it is not set, minions of the library are used. */
  readonly #programs: readonly string[] = (process.env.SALT_MINION ?? '')
    .split(',')
    .filter((it) => it !== '');
  #plane: GuestPlane | undefined;

  constructor(step: Step, lab: NetworkLab) {
    this.#step = step;
    this.#lab = lab;
    this.#guests = { A: new LabGuest(lab, 'A'), B: new LabGuest(lab, 'B') };
  }

  get #running(): GuestPlane {
    if (this.#plane === undefined) throw new Error('the master has not been started');
    return this.#plane;
  }

  async build(): Promise<void> {
    await this.#step(
      'create two networks, each with a machine that has the address 10.0.0.5',
      async () => this.#lab.open(),
    );
    await this.#step('start a master, and a metadata agent with a relay', async () => {
      const networks = labNetworks.map((it) => ({
        network: `net-${it}`,
        namespace: this.#lab.host(it),
        addresses: [`fe80::a9fe:a9fe%${this.#lab.device(it)}`],
      }));
      const sections = (folder: string): object => ({
        socket: path.join(folder, 'metadata.sock'),
        networks,
      });
      this.#plane = await GuestPlane.start(sections, ['169.254.169.254']);
      for (const network of labNetworks) {
        this.#plane.add({
          id: instances[network],
          name: 'web',
          project: projects[network],
          network: `net-${network}`,
          address: '10.0.0.5',
          mac: await this.#guests[network].mac(),
        });
      }
      const other = { id: instances.other, name: 'db', project: 'p1' };
      this.#plane.add({ ...other, network: 'net-A', address: '10.0.0.7' });
    });
    await this.#step("start haproxy in each network, for the metadata and Salt's ports", () => {
      const { folder, ports } = this.#running;
      return this.#lab.startProxies(folder, path.join(folder, 'metadata.sock'), (network) =>
        relayProxyConfiguration(network, { folder, ...ports, timeout: 3600 }),
      );
    });
  }

  async metadata(): Promise<void> {
    const where = 'openstack/latest/meta_data.json';
    await this.#step(
      'each machine gets the metadata of its own instance, signed for Nova',
      () => this.#ofBoth((it) => it.curl(where).then(uuidIn)),
      ([a, b]) => a === instances.A && b === instances.B,
    );
    await this.#step(
      'also at the link-local address fe80::a9fe:a9fe, where the agent itself listens',
      async () => {
        const url = `http://[fe80::a9fe:a9fe%25e0]/${where}`;
        for (const network of labNetworks) await this.#lab.untilUp(network, url);
        return this.#ofBoth((it) => it.curl(url).then(uuidIn));
      },
      ([a, b]) => a === instances.A && b === instances.B,
    );
  }

  async forge(): Promise<void> {
    const { A } = this.#guests;
    const where = 'openstack/latest/meta_data.json';
    await this.#step(
      'identity headers that a machine sends itself have no effect',
      async () => {
        const ids = [`X-Instance-ID: ${instances.B}`, 'X-Neutron-Network-ID: net-B'];
        const own = await A.curl(where, ...ids.flatMap((it) => ['-H', it]));
        const twice = await A.status(where, '-H', 'X-Forwarded-For: 10.0.0.7');
        return [uuidIn(own), twice];
      },
      ([own, twice]) => own === instances.A && twice === '400',
    );
    await this.#step(
      'a request from an address without a Neutron port is rejected',
      async () => {
        const guest = this.#lab.guest('A');
        execFileSync('ip', ['-n', guest, 'addr', 'add', '10.0.0.66/24', 'dev', 'e0']);
        return A.status(where, '--interface', '10.0.0.66');
      },
      (status) => status === '404',
    );
  }

  async enrol(): Promise<void> {
    await this.#step(
      'each machine requests its user-data, without a ticket',
      () => this.#ofBoth((it) => it.readUserData()),
      ([a, b]) => a?.id === 'web.p1' && b?.id === 'web.p2',
    );
    const kind =
      this.#programs.length > 0 ? 'salt-minion' : "the library's minion (no SALT_MINION)";
    await this.#step(
      `each machine starts ${kind}, and sends its claim through the agent`,
      async () => {
        const { requestPort } = this.#running.ports;
        const start = async (guest: LabGuest, at: number): Promise<string> => {
          const programs = this.#programs;
          await guest.startMinion(programs[at % Math.max(1, programs.length)], requestPort);
          return guest.claim();
        };
        return Promise.all([start(this.#guests.A, 0), start(this.#guests.B, 1)]);
      },
    );
    await this.#step(
      'both minions sign in through the relay under the ids of their instances, not as 10.0.0.5',
      async () => {
        const { bridge, master } = this.#running;
        await eventually('sign-in of both minions', async () => {
          const all = await bridge.enroll.list();
          return all.filter(({ state }) => state === 'signed-in').length === 2;
        });
        const presence = { fun: 'manage.present', kwarg: { show_ip: true } };
        let text = '';
        await eventually('connection of both minions', async () => {
          text = JSON.stringify((await master.runners.run(presence)).return);
          return text.includes(instances.A) && text.includes(instances.B);
        });
        return text;
      },
      (text) =>
        labNetworks.every((it) => text.includes(`instance:${projects[it]}/${instances[it]}`)),
    );
    await this.#step(
      'the user-data is not sent a second time',
      () => this.#ofBoth((it) => it.status('saltbridge/v1/user-data')),
      (statuses) => statuses.every((it) => it === '404'),
    );
  }

  async peers(): Promise<void> {
    await this.#step(
      'each machine sees only the instances of its own project',
      async () => {
        const ask = (guest: LabGuest): Promise<string> => guest.curl('saltbridge/v1/peers');
        await eventually('peer of A', async () =>
          (await ask(this.#guests.A)).includes(instances.other),
        );
        return this.#ofBoth(async (it) => JSON.parse(await ask(it)));
      },
      ([a, b]) => {
        const [ofA, ofB] = [a, b].map((it) => JSON.stringify(it.peers));
        return (
          ofA?.includes(instances.other) === true && !ofA.includes(instances.B) && ofB === '[]'
        );
      },
    );
  }

  async data(): Promise<void> {
    const { A, B } = this.#guests;
    const where = 'saltbridge/v1/data?key=db/password';
    await this.#step('data space: A writes a password, B reads it', async () => {
      await this.#running.bridge.data.add({
        name: 'shop',
        roles: {
          db: { minions: [A.id], writes: { password: { secret: true } } },
          app: { minions: [B.id], reads: { password: 'db/password' } },
        },
      });
    });
    await this.#step(
      'B reads first and waits, A writes, and B has the value',
      async () => {
        const reading = B.curl(`${where}&wait=20`);
        const written = await A.status(where, '-X', 'PUT', '--data-binary', 'of A');
        return [written, await reading];
      },
      ([written, read]) => written === '200' && read === 'of A',
    );
    await this.#step(
      "B cannot write values of A's role",
      () => B.status(where, '-X', 'PUT', '--data-binary', 'of B'),
      (status) => status === '403',
    );
  }

  async signals(): Promise<void> {
    await this.#step(
      'each machine signals that it is ready; each signal belongs to the correct minion',
      async () => {
        const body = JSON.stringify({ status: 'SUCCESS', data: 'ready' });
        const where = 'saltbridge/v1/signals?alias=ready';
        const statuses = await this.#ofBoth((it) => it.status(where, '--data-binary', body));
        const held = await this.#running.bridge.outbox.list();
        return { statuses, minions: held.map(({ minion }) => minion).sort() };
      },
      ({ statuses, minions }) =>
        statuses.every((it) => it === '200') && minions.join() === 'web.p1,web.p2',
    );
  }

  async relay(): Promise<void> {
    await this.#step(
      'a job runs on both, through the relay',
      () => this.#returnsOf('test.ping'),
      (returns) => returns.length === 2 && returns.every((it) => it === true),
    );
    if (this.#programs.length > 0) {
      await this.#step(
        'both get a file from the master, through the relay',
        () => this.#returnsOf('cp.get_file_str', 'salt://motd'),
        (returns) => returns.length === 2 && returns.every((it) => it === 'from the master\n'),
      );
    }
    await this.#step(
      'if a machine sends a PROXY header, only its own connection is closed',
      async () => {
        const { requestPort: port } = this.#running.ports;
        const ids = { network: 'net-B', instance: instances.B, project: 'p2' };
        const address = '169.254.169.254';
        const source = { address: '10.0.0.5', port: 40_000 };
        const header = encodeProxyHeader(ids, source, { address, port }).toString('hex');
        const script = `const socket = require('net').connect(${port}, '${address}');
          socket.on('error', () => {});
          socket.on('close', () => console.log('closed'));
          socket.resume();
          socket.write(Buffer.from('${header}' + '00'.repeat(64), 'hex'));`;
        const said = await this.#lab.run('A', process.execPath, '-e', script);
        return [said.trim(), ...(await this.#returnsOf('test.ping'))];
      },
      (said) => said.join() === 'closed,true,true',
    );
  }

  async close(): Promise<void> {
    await this.#guests.A.close();
    await this.#guests.B.close();
    await this.#plane?.close();
  }

  #ofBoth<T>(work: (guest: LabGuest) => Promise<T>): Promise<readonly T[]> {
    return Promise.all(labNetworks.map((it) => work(this.#guests[it])));
  }

  async #returnsOf(fun: string, ...arg: readonly string[]): Promise<readonly unknown[]> {
    const returns: unknown[] = [];
    for await (const update of this.#running.master.jobs.run({ tgt: '*', fun, arg })) {
      if (update.type === 'return') returns.push(update.return);
    }
    return returns;
  }
}

function uuidIn(text: string): string {
  return /"uuid":"([^"]+)"/.exec(text)?.[1] ?? text;
}
