/** Stacks whose deployments the bridge runs: registration, storage, and which minion a server is. */

import { randomUUID } from 'node:crypto';
import Type from 'typebox';
import type { Subject } from '#acl';
import {
  BridgeError,
  findRegistration,
  registrationOf,
  requireRegistrationRoom,
  SharedNames,
} from '#heat-bridge';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { compileSchema, KeyedMutex, originOf } from '#runtime';
import { defineRow, fromJson, jsonField } from '#store';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Name = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
});
const MinionId = Type.String({ minLength: 1, maxLength: 253 });
/** What Heat calls a server: its id, or the name of its resource. */
const ServerName = Type.String({ minLength: 1, maxLength: 255, pattern: '^[^\\p{Cc}]+$' });
/** `name/id`, as Heat writes it. */
const StackPath = Type.String({ pattern: '^[^/\\s]{1,255}/[A-Za-z0-9-]{1,64}$' });
const UserLogin = {
  auth_url: Text,
  user_id: Text,
  password: Text,
  project_id: Text,
  region_name: Type.Optional(Type.Union([Text, Type.Null()])),
};

/** `os-collect-config` of a server, as its attribute `os_collect_config` has it. */
const CollectConfigSchema = Type.Object({
  collectors: Type.Optional(Type.Array(Text, { maxItems: 16 })),
  heat: Type.Optional(Type.Object({ ...UserLogin, stack_id: StackPath, resource_name: Text })),
  zaqar: Type.Optional(Type.Object({ ...UserLogin, queue_id: Text })),
  cfn: Type.Optional(
    Type.Object({
      metadata_url: Text,
      access_key_id: Text,
      secret_access_key: Text,
      stack_name: Text,
      path: Text,
    }),
  ),
  request: Type.Optional(Type.Object({ metadata_url: Text })),
});

/** How a server's metadata is read. */
export interface CollectConfig {
  readonly heat?: ServerLogin & { readonly stack_id: string; readonly resource_name: string };
  readonly zaqar?: ServerLogin & { readonly queue_id: string };
  readonly cfn?: {
    readonly metadata_url: string;
    readonly access_key_id: string;
    readonly secret_access_key: string;
    readonly stack_name: string;
    readonly path: string;
  };
  readonly request?: { readonly metadata_url: string };
}

/** A user of Heat's stack domain. */
export interface ServerLogin {
  readonly auth_url: string;
  readonly user_id: string;
  readonly password: string;
  readonly project_id: string;
  readonly region_name?: string | null;
}

const region = { region_name: Type.Optional(Text) };
const OwnerLoginSchema = Type.Union([
  Type.Object(
    {
      auth_url: Text,
      application_credential_id: Text,
      application_credential_secret: Text,
      ...region,
    },
    strict,
  ),
  Type.Object({ auth_url: Text, user_id: Text, password: Text, trust_id: Text, ...region }, strict),
  Type.Object(
    { auth_url: Text, user_id: Text, password: Text, project_id: Text, ...region },
    strict,
  ),
]);

/** Who reads the deployments of one stack: an application credential, a trust, or a user. */
export type OwnerLogin = { readonly auth_url: string; readonly region_name?: string } & (
  | {
      readonly application_credential_id: string;
      readonly application_credential_secret: string;
    }
  | { readonly user_id: string; readonly password: string; readonly trust_id: string }
  | { readonly user_id: string; readonly password: string; readonly project_id: string }
);

const registrationFields = {
  minions: Type.Optional(Type.Array(MinionId, { maxItems: 10_000, uniqueItems: true })),
  servers: Type.Optional(
    Type.Array(
      Type.Object(
        {
          server: ServerName,
          minion: Type.Optional(MinionId),
          collect: Type.Optional(CollectConfigSchema),
        },
        strict,
      ),
      { maxItems: 10_000 },
    ),
  ),
  stack: Type.Optional(StackPath),
  login: Type.Optional(OwnerLoginSchema),
  project: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
  service: Type.Optional(Name),
};

/** What a stack is registered with. */
export interface StackRegistration {
  /** Names the registration; unique to its owner. */
  readonly name: string;
  /** Minions that servers of the stack may name in `saltbridge:minion`. Default: none. */
  readonly minions?: readonly string[];
  /** Servers, and how each is read. */
  readonly servers?: readonly StackServer[];
  /** `name/id` of the stack, whose servers are looked up. Needs `login`. */
  readonly stack?: string;
  /** Credentials for this stack alone. */
  readonly login?: OwnerLogin;
  /** Enrolments of this project say which minion a server is, by their instance. */
  readonly project?: string;
  /** The service whose rules hold for the deployments. Default `deployments`. */
  readonly service?: string;
}

/** A server of a stack. */
export interface StackServer {
  /** Its id, or the name of its resource. */
  readonly server: string;
  /** Default: by the enrolment of this instance, or by the server's metadata. */
  readonly minion?: string;
  /** Its `os-collect-config`. Default: read with the stack's `login`. */
  readonly collect?: CollectConfig;
}

/** See {@link StackRegistration}. */
export const StackRegistrationSchema = Type.Object({ name: Name, ...registrationFields }, strict);

const isRegistration = compileSchema(Type.Unsafe<StackRegistration>(StackRegistrationSchema));

/** Reads a registration. @throws BridgeError ERR_STACK_FORM, without a value */
export function parseStackRegistration(given: unknown): StackRegistration {
  const [first] = isRegistration.Errors(given);
  if (first !== undefined) {
    const field = first.instancePath.slice(1).replaceAll('/', '.') || 'registration';
    const problem = first.keyword === 'boolean' ? 'there is no such field' : first.message;
    throw formError(field, problem);
  }
  const registration = isRegistration.Parse(given);
  const { servers = [], stack, login } = registration;
  if (stack !== undefined && login === undefined) throw formError('login', 'expected with stack');
  if (servers.length === 0 && stack === undefined) {
    throw formError('servers', 'expected servers, or a stack and a login');
  }
  if (new Set(servers.map(({ server }) => server)).size < servers.length) {
    throw formError('servers', 'a server is named twice');
  }
  for (const [index, { collect }] of servers.entries()) {
    if (collect === undefined && login === undefined) {
      throw formError(`servers.${index}.collect`, 'expected, as the stack has no login');
    }
  }
  originsOf(registration);
  return registration;
}

/** Every service that the registration names. @throws BridgeError ERR_STACK_FORM */
function originsOf({ login, servers = [] }: StackRegistration): readonly string[] {
  const urls = servers.flatMap(({ collect }) => (collect === undefined ? [] : urlsOf(collect)));
  const all = login === undefined ? urls : [login.auth_url, ...urls];
  try {
    return [...new Set(all.map(originOf))];
  } catch {
    throw formError('auth_url, metadata_url', 'expected addresses of http or https');
  }
}

function urlsOf({ heat, zaqar, cfn, request }: CollectConfig): readonly string[] {
  const urls = [heat?.auth_url, zaqar?.auth_url, cfn?.metadata_url, request?.metadata_url];
  const found = urls.filter((url) => url !== undefined);
  if (found.length === 1) return found;
  throw formError('collect', 'expected one of heat, zaqar, cfn and request');
}

function formError(field: string, problem: string): BridgeError {
  return new BridgeError('ERR_STACK_FORM', `${field}: ${problem}`);
}

/** A registered stack as anybody may see it. */
export interface StackInfo {
  readonly name: string;
  /** Of this registration. */
  readonly id: string;
  readonly owner?: string;
  readonly stack?: string;
  readonly minions: readonly string[];
  readonly servers: readonly {
    readonly server: string;
    readonly minion?: string;
    /** What reads its metadata. */
    readonly source: MetadataTransport;
  }[];
  /** Scheme, host and port of every service that the registration names. */
  readonly origins: readonly string[];
  /** Those of them that are not listed under `handles: endpoints`: they are not asked. */
  readonly unlisted: readonly string[];
  /** Milliseconds since 1970. */
  readonly registeredAt: number;
}

/** Where a server's metadata comes from. */
type MetadataTransport = 'cfn' | 'heat' | 'login' | 'request' | 'zaqar';

function transportOf(collect: CollectConfig | undefined): MetadataTransport {
  if (collect?.heat !== undefined) return 'heat';
  if (collect?.zaqar !== undefined) return 'zaqar';
  if (collect?.cfn !== undefined) return 'cfn';
  return collect?.request === undefined ? 'login' : 'request';
}

/** A stack with its secrets, in memory only. */
export interface RegisteredStack {
  readonly id: string;
  readonly owner: string | undefined;
  /** Whose rules hold for what its deployments run. */
  readonly subject: Subject;
  readonly registration: StackRegistration;
  readonly registeredAt: number;
}

/** Rows of stacks, sealed. */
const stackRow = defineRow({
  name: 'stack',
  schema: Type.Unsafe<RegisteredStack>(
    Type.Object({
      id: Type.String(),
      owner: Type.Optional(Type.String()),
      subject: Type.Object({ kind: Type.String() }),
      registration: Type.Object({ name: Type.String() }),
      registeredAt: Type.Number(),
    }),
  ),
  packed: { subject: jsonField, registration: jsonField },
  unversioned: fromJson,
});

export interface StackRegistryOptions {
  readonly state: SharedArea;
  readonly isListed: (origin: string) => boolean;
  readonly now: () => number;
}

const limits = { code: 'ERR_STACK_LIMIT', kind: 'stack' } as const;
const unknown = { code: 'ERR_STACK_UNKNOWN', kind: 'stack' } as const;
/** Bytes of one registration. */
const maxRegistrationBytes = 4_194_304;

/** The registered stacks; what is stored of them is sealed. */
export class StackRegistry {
  readonly #options: StackRegistryOptions;
  readonly #stacks = new Map<string, RegisteredStack>();
  readonly #changes = new KeyedMutex();
  readonly #names: SharedNames;
  #onChanged: (id: string) => void = () => {};

  private constructor(options: StackRegistryOptions, names: SharedNames) {
    this.#options = options;
    this.#names = names;
  }

  /** With those that a process before this one registered. */
  static async open(options: StackRegistryOptions): Promise<StackRegistry> {
    const { state } = options;
    const names = await SharedNames.open(state, 'stack-names');
    const registry = new StackRegistry(options, names);
    await state.follow(['deployments', 'stacks'], (change) => registry.#note(change));
    return registry;
  }

  /** Told the id of each stack that was registered, changed or removed, at any member of a cluster. */
  set onChanged(listener: (id: string) => void) {
    this.#onChanged = listener;
  }

  /** By its id. */
  get(id: string): RegisteredStack | undefined {
    return this.#stacks.get(id);
  }

  get all(): readonly RegisteredStack[] {
    return [...this.#stacks.values()];
  }

  /**
   * Registers a stack; durable when it resolves.
   * @param replaces - whether one of this name and owner may be there, whose servers change
   * @throws BridgeError ERR_STACK_EXISTS, ERR_STACK_LIMIT
   */
  add(
    registration: StackRegistration,
    whose: Pick<RegisteredStack, 'owner' | 'subject'>,
    replaces: boolean,
  ): Promise<RegisteredStack> {
    return this.#decide(registration.name, async (steps) => {
      const { now } = this.#options;
      const { owner, subject } = whose;
      const before = registrationOf(this.#named, { name: registration.name, owner })?.stack;
      if (before !== undefined && !replaces) {
        const text = `${registration.name}: a stack is registered under this name`;
        throw new BridgeError('ERR_STACK_EXISTS', text);
      }
      if (before === undefined) requireRegistrationRoom(this.#named, owner, limits);
      const id = before?.id ?? randomUUID();
      const stack: RegisteredStack = { id, owner, subject, registration, registeredAt: now() };
      await this.#write(stack, steps);
      return stack;
    });
  }

  /** One change of a name at a time, at all members of a cluster. */
  #decide<T>(name: string, work: (steps: readonly StateOperation[]) => Promise<T>): Promise<T> {
    return this.#changes.run(name, () => this.#names.decide([name], work));
  }

  async #write(stack: RegisteredStack, steps: readonly StateOperation[]): Promise<void> {
    const { state } = this.#options;
    const bytes = stackRow.encode(stack);
    if (bytes.length > maxRegistrationBytes) {
      const text = `the registration has more than ${maxRegistrationBytes} bytes`;
      throw new BridgeError('ERR_STACK_LIMIT', text);
    }
    await state.write([{ op: 'put', key: rowKey(stack.id), value: state.seal(bytes) }, ...steps]);
    if (state.cluster === undefined) this.#set(stack.id, stack);
  }

  /** A stack of the store; in a cluster also what any member makes of it. */
  #note(change: StateChange): void {
    const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    if (change.type === 'delete') {
      this.#set(id, undefined);
      return;
    }
    const { key, value } = change.entry;
    this.#set(id, stackRow.decode({ key, value: this.#options.state.unseal(value) }));
  }

  #set(id: string, stack: RegisteredStack | undefined): void {
    if (stack === undefined) this.#stacks.delete(id);
    else this.#stacks.set(id, stack);
    this.#onChanged(id);
  }

  /** Forgets a stack and its secrets; durable when it resolves. @throws BridgeError ERR_STACK_UNKNOWN */
  remove(name: string, owner: string | undefined): Promise<RegisteredStack> {
    return this.#decide(name, async (steps) => {
      const { state } = this.#options;
      const stack = this.find(name, owner);
      await state.write([{ op: 'delete', key: rowKey(stack.id) }, ...steps]);
      if (state.cluster === undefined) this.#set(stack.id, undefined);
      return stack;
    });
  }

  /** Takes a minion that is no more out of every registration. */
  async dismiss(minion: string): Promise<void> {
    for (const { id, registration } of this.all) {
      const { minions = [], servers = [], name } = registration;
      const isNamed = minions.includes(minion) || servers.some((it) => it.minion === minion);
      if (!isNamed) continue;
      await this.#decide(name, async (steps) => {
        const stack = this.#stacks.get(id);
        if (stack === undefined) return;
        const fresh = { ...stack, registration: withoutMinion(stack.registration, minion) };
        await this.#write(fresh, steps);
      });
    }
  }

  /**
   * The stack of a name.
   * @param owner - default: whoever has it, where that is one owner
   * @throws BridgeError ERR_STACK_UNKNOWN
   */
  find(name: string, owner: string | undefined): RegisteredStack {
    return findRegistration(this.#named, { name, owner }, unknown).stack;
  }

  infoOf({ id, owner, registration, registeredAt }: RegisteredStack): StackInfo {
    const { name, stack, minions = [], servers = [] } = registration;
    const origins = originsOf(registration);
    return {
      name,
      id,
      ...(owner === undefined ? {} : { owner }),
      ...(stack === undefined ? {} : { stack }),
      minions,
      servers: servers.map(({ server, minion, collect }) => ({
        server,
        ...(minion === undefined ? {} : { minion }),
        source: transportOf(collect),
      })),
      origins,
      unlisted: origins.filter((origin) => !this.#options.isListed(origin)),
      registeredAt,
    };
  }

  get #named(): readonly NamedStack[] {
    return this.all.map((stack) => {
      return { stack, name: stack.registration.name, owner: stack.owner };
    });
  }
}

/** A stack with the name and the owner by which it is found. */
interface NamedStack {
  readonly stack: RegisteredStack;
  readonly name: string;
  readonly owner: string | undefined;
}

/** A later machine of the id is nobody's server. */
function withoutMinion(registration: StackRegistration, minion: string): StackRegistration {
  const { minions = [], servers = [] } = registration;
  return {
    ...registration,
    minions: minions.filter((it) => it !== minion),
    servers: servers.filter((it) => it.minion !== minion),
  };
}

function rowKey(id: string): readonly string[] {
  return ['deployments', 'stacks', id];
}
