import type { LiveConfig } from '#config';
import type {
  ExtPillar,
  FileServerBackend,
  InProcessApi,
  MinionRunners,
  NamedCommands,
  PillarApi,
  ReactionsApi,
  TopsProvider,
} from '../api/index.ts';
import type { Audit } from '../audit/index.ts';
import type { Auth } from '../auth/index.ts';
import type { MasterContext } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import type { Functions } from '../functions/index.ts';
import type { Jobs } from '../jobs/index.ts';
import type { RequestLimits, RequestType } from '../requests/index.ts';
import type { Users } from '../users/index.ts';
import type { TokenHolders } from './extension.ts';
import type { HttpRoutes } from './http-routes.ts';
import { defineService, type ServiceKey } from './services.ts';

/**
 * What all extensions of a master contribute. It grows while they are opened and is complete before
 * they are started, so read it when it is needed and not when the extension is opened.
 */
export interface Contributions {
  readonly files: readonly FileServerBackend[];
  readonly pillars: readonly ExtPillar[];
  readonly minionRunners: ReadonlyMap<string, MinionRunners[string]>;
  readonly tops: TopsProvider | undefined;
  readonly commands: NamedCommands | undefined;
  readonly routes: readonly HttpRoutes[];
  readonly requests: ReadonlyMap<string, RequestType>;
}

/** The environments of the files that minions look for states in. */
interface FileEnvironments {
  list(): readonly string[];
}

/** The keys of the master's own modules. */
export interface MasterServices {
  readonly config: ServiceKey<LiveConfig>;
  readonly context: ServiceKey<MasterContext>;
  readonly auth: ServiceKey<Auth>;
  readonly audit: ServiceKey<Audit>;
  readonly events: ServiceKey<Events>;
  readonly jobs: ServiceKey<Jobs>;
  readonly users: ServiceKey<Users>;
  /** The interface `keys`, whose calls are audited. */
  readonly keys: ServiceKey<InProcessApi['keys']>;
  readonly limits: ServiceKey<RequestLimits>;
  readonly functions: ServiceKey<Functions>;
  readonly contributions: ServiceKey<Contributions>;
  readonly tokenHolders: ServiceKey<TokenHolders>;
  /** Environments of files. An extension provides them. */
  readonly fileEnvironments: ServiceKey<FileEnvironments>;
  /** The interface `pillar` of the master. An extension provides it. */
  readonly pillar: ServiceKey<PillarApi>;
  /** The interface `reactions` of the master. An extension provides it. */
  readonly reactions: ServiceKey<ReactionsApi>;
}

/**
 * Keys of the master's own modules. Extensions that are part of this package build on them;
 * programs use the members of `ExtensionHost`.
 */
export const masterServices: MasterServices = {
  config: defineService('config'),
  context: defineService('context'),
  auth: defineService('auth'),
  audit: defineService('audit'),
  events: defineService('events'),
  jobs: defineService('jobs'),
  users: defineService('users'),
  keys: defineService('keys'),
  limits: defineService('limits'),
  functions: defineService('functions'),
  contributions: defineService('contributions'),
  tokenHolders: defineService('token-holders'),
  fileEnvironments: defineService('file-environments'),
  pillar: defineService('pillar'),
  reactions: defineService('reactions'),
};
