/** Registered stacks and their storage. The bridge runs the deployments of these stacks. */

import { randomUUID } from 'node:crypto';
import Type, { type Static, type TObject } from 'typebox';
import type { Subject } from '#acl';
import {
  BridgeError,
  listOf,
  PendingRegistrations,
  parseForm,
  type RegistrationChecks,
  SharedNames,
} from '#heat-bridge';
import type { SharedArea, StateChange, StateOperation } from '#master';
import {
  Budget,
  compileSchema,
  KeyedMutex,
  type LimitValues,
  originOf,
  releaseAll,
  tryTakeAll,
} from '#runtime';
import { defineRow, fromJson, jsonField, Texts } from '#store';
import { guestLimits } from '../limits.ts';
import { findRegistration, registrationOf, requireRegistrationRoom } from '../registrations.ts';

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 4096 });
const Name = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
});
const MinionId = Type.String({ minLength: 1, maxLength: 253 });
/** Name of a server in Heat: its id, or the name of its resource. */
const ServerName = Type.String({ minLength: 1, maxLength: 255, pattern: '^[^\\p{Cc}]+$' });
/** Stack in the form `name/id`, as Heat writes it. */
const StackPath = Type.String({ pattern: '^[^/\\s]{1,255}/[A-Za-z0-9-]{1,64}$' });
/** Credentials of a user in Heat's stack domain. */
const UserLogin = {
  auth_url: Text,
  user_id: Text,
  password: Text,
  project_id: Text,
  region_name: Type.Optional(Type.Union([Text, Type.Null()])),
};

/** Credentials of a user in Heat's stack domain. */
export type ServerLogin = Static<TObject<typeof UserLogin>>;

/**
 * Section `os-collect-config` of a server, in the form of the attribute `os_collect_config` in
 * Heat.
 */
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

/** Section `os-collect-config` of a server. It describes how the server's metadata is read. */
export type CollectConfig = Static<typeof CollectConfigSchema>;

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

/**
 * Credentials for reading the deployments of one stack: an application credential, a trust, or a
 * user.
 */
export type OwnerLogin = Static<typeof OwnerLoginSchema>;

const ServerSchema = Type.Object(
  {
    /** Id of the server, or the name of its resource. */
    server: ServerName,
    /**
     * Minion of the server. Default: the minion of the enrolment with this instance, or the minion
     * that the server's metadata names.
     */
    minion: Type.Optional(MinionId),
    /**
     * Section `os-collect-config` of the server. Default: none; the metadata is read with the
     * `login` of the stack.
     */
    collect: Type.Optional(CollectConfigSchema),
  },
  strict,
);

/** Server of a stack. */
export type StackServer = Readonly<Static<typeof ServerSchema>>;

/** Registration of a stack. */
export const StackRegistrationSchema = Type.Object(
  {
    /** Name under which the stack is registered, unique for its owner. */
    name: Name,
    /** Minions that servers of the stack may name in `saltbridge:minion`. Default: none. */
    minions: Type.Optional(
      Type.Unsafe<readonly string[]>(Type.Array(MinionId, { maxItems: 10_000, uniqueItems: true })),
    ),
    /** Servers of the stack, each with the source of its metadata. */
    servers: Type.Optional(
      Type.Unsafe<readonly StackServer[]>(Type.Array(ServerSchema, { maxItems: 10_000 })),
    ),
    /**
     * Path `name/id` of a stack whose resources are searched for further servers. Requires `login`.
     */
    stack: Type.Optional(StackPath),
    /** Credentials that are used for this stack only. */
    login: Type.Optional(OwnerLoginSchema),
    /**
     * Keystone project. The enrolments of this project determine the minions of servers, by
     * instance id.
     */
    project: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    /** Service whose policy rules apply to the deployments. Default: `deployments`. */
    service: Type.Optional(Name),
  },
  strict,
);

/** Registration of a stack; {@link StackRegistrationSchema} documents its fields. */
export type StackRegistration = Readonly<Static<typeof StackRegistrationSchema>>;

const isRegistration = compileSchema(StackRegistrationSchema);

/**
 * Parses the registration of a stack.
 * @throws BridgeError ERR_STACK_FORM; its message contains no values
 */
export function parseStackRegistration(given: unknown): StackRegistration {
  const registration = parseForm(isRegistration, given, 'ERR_STACK_FORM', 'registration');
  const { servers = [], stack, login } = registration;
  if (stack !== undefined && login === undefined)
    throw formError('login', 'required, because stack is set');
  if (servers.length === 0 && stack === undefined) {
    throw formError('servers', 'required, unless stack and login are set');
  }
  if (new Set(servers.map(({ server }) => server)).size < servers.length) {
    throw formError('servers', 'duplicate server');
  }
  for (const [index, { collect }] of servers.entries()) {
    if (collect === undefined && login === undefined) {
      throw formError(
        `servers.${index}.collect`,
        'required, because the registration has no login',
      );
    }
  }
  originsOf(registration);
  return registration;
}

/** Maximum number of services that a registration may name. */
const maxServices = 100;
/**
 * Matches scheme, host and port at the start of a URL, if they have no upper-case or non-ASCII
 * letters. URL parsing does not change such a host.
 */
const plainOrigin = /^https?:\/\/[a-z0-9.-]+(?::\d+)?(?=[/?#]|$)/;

/**
 * Returns the origins of all services that the registration names.
 * @throws BridgeError ERR_STACK_FORM
 */
function originsOf({ login, servers = [] }: StackRegistration): readonly string[] {
  const urls = servers.flatMap(({ collect }) => (collect === undefined ? [] : urlsOf(collect)));
  const all = login === undefined ? urls : [login.auth_url, ...urls];
  // Parse each service once, because a registration can have 10,000 URLs of one service.
  const services = new Set(all.map((url) => plainOrigin.exec(url)?.[0] ?? url));
  if (services.size > maxServices) {
    throw formError('servers', `name more than ${maxServices} services; register several stacks`);
  }
  try {
    return [...new Set([...services].map(originOf))];
  } catch {
    throw formError('auth_url, metadata_url', 'must be http or https URLs');
  }
}

function urlsOf({ heat, zaqar, cfn, request }: CollectConfig): readonly string[] {
  const urls = [heat?.auth_url, zaqar?.auth_url, cfn?.metadata_url, request?.metadata_url];
  const found = urls.filter((url) => url !== undefined);
  if (found.length === 1) return found;
  throw formError('collect', 'must set exactly one of heat, zaqar, cfn and request');
}

function formError(field: string, problem: string): BridgeError {
  return new BridgeError('ERR_STACK_FORM', `${field}: ${problem}`);
}

/** Registered stack, without its secrets. */
export const StackSchema = Type.Object({
  name: Type.String(),
  /** Id that the bridge gave the stack when it was registered. */
  id: Type.String(),
  owner: Type.Optional(Type.String()),
  stack: Type.Optional(Type.String()),
  minions: Texts,
  servers: listOf(
    Type.Object({
      server: Type.String(),
      minion: Type.Optional(Type.String()),
      /**
       * Source of the server's metadata. `login`: heat-api, with the login in the stack's
       * registration. For any other source, the registration has details in the field of `collect`
       * with the same name.
       */
      source: Type.Enum(['cfn', 'heat', 'login', 'request', 'zaqar']),
    }),
  ),
  /** Scheme, host and port of every service that the registration names. */
  origins: Texts,
  /** Origins that are not listed under `handles: endpoints`. The bridge does not contact them. */
  unlisted: Texts,
  /** Time of the registration, in milliseconds since 1970. */
  registeredAt: Type.Integer(),
});

/** Registered stack; {@link StackSchema} documents its fields. */
export type StackInfo = Readonly<Static<typeof StackSchema>>;

/** Transport through which a server's metadata is read. */
type MetadataTransport = StackInfo['servers'][number]['source'];

function transportOf(collect: CollectConfig | undefined): MetadataTransport {
  if (collect?.heat !== undefined) return 'heat';
  if (collect?.zaqar !== undefined) return 'zaqar';
  if (collect?.cfn !== undefined) return 'cfn';
  return collect?.request === undefined ? 'login' : 'request';
}

/** Registered stack, including its secrets in plain text. It exists in memory only. */
export interface RegisteredStack {
  readonly id: string;
  readonly owner: string | undefined;
  /** Subject whose rules apply to the deployments of the stack. */
  readonly subject: Subject;
  readonly registration: StackRegistration;
  readonly registeredAt: number;
}

/** Format of the encrypted rows with the keys `deployments/stacks/<id>`. */
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
  /** Limits on the size of registrations, in bytes. Default: `guestLimits.stackBytes`. */
  readonly bytes?: LimitValues;
  /** Limits on the number of servers in registrations. Default: `guestLimits.stackServers`. */
  readonly servers?: LimitValues;
  readonly now: () => number;
}

/**
 * Size of a registration in bytes, and its number of servers. The limits of the owner apply to
 * both.
 */
interface StackSize {
  readonly owner: string;
  readonly bytes: number;
  readonly servers: number;
}

const limits = { code: 'ERR_STACK_LIMIT', kind: 'stack' } as const;
const unknown = { code: 'ERR_STACK_UNKNOWN', kind: 'stack' } as const;
/** Maximum size of the registration of one stack, in bytes. */
const maxRegistrationBytes = 4_194_304;

/** Registry of stacks, which are encrypted in the store. */
export class StackRegistry {
  readonly #options: StackRegistryOptions;
  readonly #stacks = new Map<string, RegisteredStack>();
  readonly #changes = new KeyedMutex();
  readonly #pending = new PendingRegistrations();
  readonly #names: SharedNames;
  readonly #bytes: Budget;
  readonly #servers: Budget;
  readonly #sizes = new Map<string, StackSize>();
  #onChanged: (id: string) => void = () => {};

  private constructor(options: StackRegistryOptions, names: SharedNames) {
    this.#options = options;
    this.#names = names;
    this.#bytes = new Budget(guestLimits.stackBytes, options.bytes);
    this.#servers = new Budget(guestLimits.stackServers, options.servers);
  }

  /** Opens the registry with the stored stacks. */
  static async open(options: StackRegistryOptions): Promise<StackRegistry> {
    const { state } = options;
    const names = await SharedNames.open(state, 'stack-names');
    const registry = new StackRegistry(options, names);
    await state.follow(['deployments', 'stacks'], (change) => registry.#note(change));
    return registry;
  }

  /**
   * Sets the listener that receives the id of each stack that a cluster member registered, changed
   * or removed.
   */
  set onChanged(listener: (id: string) => void) {
    this.#onChanged = listener;
  }

  /** Returns the stack with this id, or `undefined`. */
  get(id: string): RegisteredStack | undefined {
    return this.#stacks.get(id);
  }

  get all(): readonly RegisteredStack[] {
    return [...this.#stacks.values()];
  }

  /**
   * Registers a stack. Resolves when it is durable.
   * @param replaces - whether the registration may replace a stack with the same name and owner
   * @throws BridgeError ERR_STACK_EXISTS, ERR_STACK_LIMIT
   */
  add(
    registration: StackRegistration,
    whose: Pick<RegisteredStack, 'owner' | 'subject'>,
    replaces: boolean,
    checks: RegistrationChecks = {},
  ): Promise<RegisteredStack> {
    return this.#decide(registration.name, checks, async (steps) => {
      const { now } = this.#options;
      const { owner, subject } = whose;
      const before = registrationOf(this.#named, { name: registration.name, owner })?.stack;
      if (before !== undefined && !replaces) {
        const text = `${registration.name}: a stack with this name already exists; remove or replace it`;
        throw new BridgeError('ERR_STACK_EXISTS', text);
      }
      if (before === undefined) requireRegistrationRoom(this.#named, owner, limits);
      const id = before?.id ?? randomUUID();
      const stack: RegisteredStack = { id, owner, subject, registration, registeredAt: now() };
      await this.#write(stack, steps);
      return stack;
    });
  }

  /**
   * Runs `work`, which checks and changes the registrations with one name. If another cluster
   * member changes them first, runs `work` again.
   */
  #decide<T>(
    name: string,
    checks: RegistrationChecks,
    work: (steps: readonly StateOperation[]) => Promise<T>,
  ): Promise<T> {
    return this.#changes.run(name, () =>
      this.#names.decide([name], (steps) => this.#pending.store(checks, () => work(steps))),
    );
  }

  async #write(stack: RegisteredStack, steps: readonly StateOperation[]): Promise<void> {
    const { state } = this.#options;
    const bytes = stackRow.encode(stack);
    if (bytes.length > maxRegistrationBytes) {
      const text = `the registration of the stack exceeds ${maxRegistrationBytes} bytes`;
      throw new BridgeError('ERR_STACK_LIMIT', text);
    }
    const size = sizeOf(stack, bytes.length);
    const release = this.#reserve(stack.id, size);
    try {
      await state.write([{ op: 'put', key: rowKey(stack.id), value: state.seal(bytes) }, ...steps]);
    } finally {
      release();
    }
    if (state.cluster === undefined) this.#set(stack.id, stack, size);
  }

  /**
   * Reserves the bytes and servers of a registration within the limits of its owner. If it replaces
   * another registration, reserves only the additional ones.
   * @returns a function that ends the reservation
   * @throws BridgeError ERR_STACK_LIMIT
   */
  #reserve(id: string, { owner, bytes, servers }: StackSize): () => void {
    const before = this.#sizes.get(id);
    const more = {
      bytes: Math.max(0, bytes - (before?.bytes ?? 0)),
      servers: Math.max(0, servers - (before?.servers ?? 0)),
    };
    const parts = [
      { budget: this.#bytes, owner, amount: more.bytes, what: 'size' },
      { budget: this.#servers, owner, amount: more.servers, what: 'number of servers' },
    ].filter(({ amount }) => amount > 0);
    const full = tryTakeAll(parts);
    if (full === undefined) return () => releaseAll(parts);
    const text = `the registered stacks of this owner, or of all owners, have reached the limit on their ${full.what}; remove stacks`;
    throw new BridgeError('ERR_STACK_LIMIT', text);
  }

  /**
   * Applies a change of a stored registration to memory. In a cluster, other members make changes
   * too.
   */
  #note(change: StateChange): void {
    const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    if (change.type === 'delete') {
      this.#forget(id);
      this.#onChanged(id);
      return;
    }
    const { key, value: sealed } = change.entry;
    const value = this.#options.state.unseal(sealed);
    const stack = stackRow.decode({ key, value });
    this.#set(id, stack, sizeOf(stack, value.length));
  }

  /** Adds or replaces a stack, even if it exceeds limits that were lowered later. */
  #set(id: string, stack: RegisteredStack, size: StackSize): void {
    this.#forget(id);
    this.#stacks.set(id, stack);
    this.#sizes.set(id, size);
    this.#bytes.take(size.owner, size.bytes);
    this.#servers.take(size.owner, size.servers);
    this.#onChanged(id);
  }

  #forget(id: string): void {
    const { owner, bytes, servers } = this.#sizes.get(id) ?? { owner: id, bytes: 0, servers: 0 };
    this.#bytes.release(owner, bytes);
    this.#servers.release(owner, servers);
    this.#sizes.delete(id);
    this.#stacks.delete(id);
  }

  /**
   * Removes a stack and its secrets. Resolves when the removal is durable.
   * @throws BridgeError ERR_STACK_UNKNOWN
   */
  remove(name: string, owner: string | undefined): Promise<RegisteredStack> {
    return this.#decide(name, {}, async (steps) => {
      const { state } = this.#options;
      const stack = this.find(name, owner);
      await state.write([{ op: 'delete', key: rowKey(stack.id) }, ...steps]);
      if (state.cluster === undefined) {
        this.#forget(stack.id);
        this.#onChanged(stack.id);
      }
      return stack;
    });
  }

  /**
   * Removes a retired minion from registrations.
   * @param whose - owner of the registrations; default: all owners
   * @returns the stacks that named the minion
   */
  async dismiss(minion: string, whose?: string): Promise<readonly RegisteredStack[]> {
    await this.#pending.settled();
    const dismissed: RegisteredStack[] = [];
    for (const { id, owner, registration } of this.all) {
      if (whose !== undefined && owner !== whose) continue;
      const { minions = [], servers = [], name } = registration;
      const isNamed = minions.includes(minion) || servers.some((it) => it.minion === minion);
      if (!isNamed) continue;
      await this.#decide(name, {}, async (steps) => {
        const stack = this.#stacks.get(id);
        if (stack === undefined) return;
        const fresh = { ...stack, registration: withoutMinion(stack.registration, minion) };
        await this.#write(fresh, steps);
        dismissed.push(fresh);
      });
    }
    return dismissed;
  }

  /**
   * Returns the stack with this name.
   * @param owner - owner of the stack; default: any owner, if only one owner has a stack with the
   * name
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

/** Stack with its name and its owner. Callers refer to a stack by both. */
interface NamedStack {
  readonly stack: RegisteredStack;
  readonly name: string;
  readonly owner: string | undefined;
}

/**
 * Returns a registration without a minion that was removed. A later machine with the same minion id
 * then does not become the minion of the registered servers.
 */
function withoutMinion(registration: StackRegistration, minion: string): StackRegistration {
  const { minions = [], servers = [] } = registration;
  return {
    ...registration,
    minions: minions.filter((it) => it !== minion),
    servers: servers.filter((it) => it.minion !== minion),
  };
}

/**
 * Returns the size of a registration, and the owner whose limits include this size. If the stack
 * has no owner, its own id serves as the owner.
 * @param bytes - size of the registration
 */
function sizeOf({ id, owner, registration }: RegisteredStack, bytes: number): StackSize {
  return { owner: owner ?? id, bytes, servers: registration.servers?.length ?? 0 };
}

function rowKey(id: string): readonly string[] {
  return ['deployments', 'stacks', id];
}
