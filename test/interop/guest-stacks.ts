/**
 * Stacks of a real Heat whose templates have roles, and real minions that are enrolled by their
 * user-data.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { allow } from '#acl';
import { resolveMasterConfig } from '#config';
import { type Bridge, createBridge } from '#guests';
import { compileTemplate } from '#guests/templates/compile-template.ts';
import { spaceOf } from '#guests/templates/prepared-roles.ts';
import type { TemplateResources } from '#guests/templates/template-graph.ts';
import { createSilentLogger, type Master } from '#master';
import type { WireValue } from '#minion-protocol';
import { createSaltApi, type SaltApi } from '#salt-api';
import { createMaster } from '#server';
import { freePort } from '../../bench/free-port.ts';
import { ScratchMachine } from '../heat-bridge/enroll/scratch-machine.ts';
import { within } from '../helpers/deadline.ts';
import { eventually } from './eventually.ts';
import { type CloudUserName, cloud as heat } from './heat-cloud.ts';
import { TemplateStack } from './heat-stack.ts';
import { MasterHome } from './our-master.ts';
import { minionPrograms } from './programs.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../test/fixtures/tls/${name}`, import.meta.url));
const program = fileURLToPath(
  new URL('../../clients/guests/saltbridge/saltbridge-data', import.meta.url),
);

/**
 * Template of a resource that replaces a server, because there is no Nova. It stores its user-data.
 */
const server = `heat_template_version: 2018-08-31
parameters:
  user_data: { type: string }
  user_data_format: { type: string }
  flavor: { type: string, default: small }
outputs:
  user_data: { value: { get_param: user_data } }
  first_address: { value: 10.9.8.7 }
resources:
  boot: { type: OS::Heat::Value, properties: { value: booted } }
`;
const registry = { resource_registry: { 'Lab::Server': 'file:///server.yaml' } };
const files = { 'file:///server.yaml': server };

/**
 * Configuration folder of a minion in the template. It is replaced by the folder of each machine.
 */
const configDir = '/etc/salt-of-a-machine';

/** A machine of a stack: the id of its minion, and where the minion runs. */
interface GuestMachine {
  readonly id: string;
  readonly number: string;
  readonly machine: ScratchMachine;
}

export interface GuestStackOptions {
  /** Name of the stack and of its data space. */
  readonly name: string;
  /** User whose project owns the stack and the data space. Default: the plain member. */
  readonly user?: CloudUserName;
  /** Domain of the minions, whose ids are `<resource>.<domain>`. */
  readonly domain: string;
}

/**
 * A stack whose servers have roles. Its template has an output for each server, which contains the
 * user-data.
 */
export class GuestStack {
  /** The template in the form that Heat accepts. */
  readonly template: { readonly resources: TemplateResources };
  readonly parameters: Readonly<Record<string, string>>;
  readonly #cloud: GuestCloud;
  readonly #machines: ReadonlyMap<string, GuestMachine>;
  readonly #name: string;
  readonly #user: CloudUserName;
  #userData: ReadonlyMap<string, unknown> = new Map();
  #stack: TemplateStack | undefined;

  private constructor(
    cloud: GuestCloud,
    template: string,
    parameters: Readonly<Record<string, string>>,
    machines: ReadonlyMap<string, GuestMachine>,
    { name, user = 'demo' }: Pick<GuestStackOptions, 'name' | 'user'>,
  ) {
    this.#name = name;
    this.#user = user;
    this.#cloud = cloud;
    this.template = parse(template);
    this.parameters = parameters;
    this.#machines = machines;
  }

  /** Registers the data space and begins the enrolments. Heat is not called yet. */
  static async prepare(
    cloud: GuestCloud,
    template: string,
    options: GuestStackOptions,
  ): Promise<GuestStack> {
    const { bridge } = cloud;
    const compiled = compileTemplate(template, { format: 'shell', configDir });
    const { name, user = 'demo', domain } = options;
    const project = heat?.users[user].project_id ?? '';
    const space = spaceOf(name, compiled, (it) => `${it.resource}.${domain}`);
    await bridge.data.add(space, { owner: project });
    const parameters: Record<string, string> = {};
    const machines = new Map<string, GuestMachine>();
    for (const [index, { resource, parameter = '' }] of compiled.machines.entries()) {
      const salt = { path: minionPrograms[index % minionPrograms.length] ?? '' };
      const machine = new ScratchMachine(salt);
      const id = `${resource}.${domain}`;
      const { userData, enrolment } = await bridge.enroll.create({
        id,
        project,
        format: 'shell',
        configDir: machine.configDir,
        config: machine.config,
      });
      parameters[parameter] = userData;
      machines.set(resource, { id, number: enrolment.number, machine });
    }
    return new GuestStack(cloud, compiled.template, parameters, machines, options);
  }

  /**
   * Creates the stack.
   * @returns its status, with the reason if it failed
   */
  async create(): Promise<string> {
    const environment = { ...registry, parameters: this.parameters };
    const more = { files, environment };
    this.#stack = await TemplateStack.create(this.template, more, this.#name, this.#user);
    const { status, reason, outputs } = await this.#stack.end('CREATE');
    this.#userData = outputs;
    return status === 'CREATE_COMPLETE' ? status : `${status}: ${reason}`;
  }

  machineOf(resource: string): ScratchMachine {
    return this.#of(resource).machine;
  }

  /** Runs the user-data of a machine, and waits until its minion has its modules. */
  async boot(resource: string): Promise<void> {
    const { id, number, machine } = this.#of(resource);
    const { bridge, master } = this.#cloud;
    const given = this.#userData.get(resource);
    if (typeof given !== 'string') throw new Error(`Heat has made no user-data for ${resource}`);
    const { status, output } = await machine.runShell(
      given.replaceAll(configDir, machine.configDir),
    );
    if (status !== 0) throw new Error(output);
    await within(`the sign-in of ${id}`, bridge.enroll.signedIn(number));
    await eventually(`${id} to be connected`, async () =>
      (await master.presence()).some((it) => it.id === id),
    );
    await this.run(resource, 'saltutil.sync_all', {});
  }

  async run(
    resource: string,
    fun: string,
    kwarg: Readonly<Record<string, WireValue>>,
  ): Promise<WireValue> {
    const { id, machine } = this.#of(resource);
    const request = { tgt: id, tgtType: 'list', fun, kwarg, timeoutSeconds: 120 };
    for await (const update of this.#cloud.master.jobs.run(request)) {
      if (update.type === 'return') return update.return;
    }
    throw new Error(`${id} did not return from ${fun}; ${machine.log}`);
  }

  /** Returns the output of `saltbridge-data` on a machine. */
  async shell(resource: string, ...args: readonly string[]): Promise<string> {
    const folder = path.join(this.machineOf(resource).configDir, 'saltbridge');
    const env = { ...process.env, SALTBRIDGE_GUEST: folder };
    return (await promisify(execFile)('sh', [program, ...args], { env })).stdout;
  }

  /** Removes the minions of the stack. */
  async retire(): Promise<void> {
    for (const { id } of this.#machines.values()) await this.#cloud.bridge.enroll.retire({ id });
  }

  async dispose(): Promise<void> {
    for (const { machine } of this.#machines.values()) machine.dispose();
    await this.#stack?.delete();
  }

  #of(resource: string): GuestMachine {
    const found = this.#machines.get(resource);
    if (found === undefined) throw new TypeError(resource);
    return found;
  }
}

/** A master at which minions of stacks enrol. */
export class GuestCloud {
  readonly master: Master;
  readonly bridge: Bridge;
  readonly #home: MasterHome;
  readonly #api: SaltApi;

  private constructor(home: MasterHome, master: Master, bridge: Bridge, api: SaltApi) {
    this.#home = home;
    this.master = master;
    this.bridge = bridge;
    this.#api = api;
  }

  static async start(): Promise<GuestCloud> {
    const port = await freePort();
    const tls = { certificate: fixture('master.pem'), key: fixture('master.key') };
    const enroll = {
      masters: ['127.0.0.1'],
      url: `https://127.0.0.1:${port}`,
      certificate: tls.certificate,
      // Minions of older releases are included.
      protocol: 0,
    };
    const rules = [
      allow('guests', {
        subject: { minion: '*' },
        action: 'runner',
        resource: { fun: 'saltbridge_data.*' },
      }),
    ];
    const home = await MasterHome.create({ acl: { signals: [], rules }, bridge: { enroll } });
    const bridge = createBridge({ extensions: { 'data-spaces': true } });
    const master = createMaster({
      config: resolveMasterConfig(home.options),
      logger: createSilentLogger(),
      extensions: [bridge],
    });
    await master.start();
    const api = await createSaltApi(master, {
      host: '127.0.0.1',
      port,
      tls,
      plugins: [bridge.http],
    });
    await api.listen();
    return new GuestCloud(home, master, bridge, api);
  }

  async dispose(): Promise<void> {
    await this.#api.close();
    await this.master.close();
    this.#home.dispose();
  }
}
