import type { LiveConfig } from '#config';
import type {
  ExtPillar,
  FileServerBackend,
  InProcessApi,
  MinionRunners,
  NamedCommands,
  PillarApi,
  ReactionsApi,
  SiteDirectory,
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
import { defineService } from './services.ts';

/**
 * Contributions of all extensions of a master. They are incomplete while extensions are being
 * opened, and complete when extensions are started. So read them when they are needed, and not
 * during `open`.
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

/**
 * Keys of the services that the master's own modules provide. Extensions in this package use them.
 * Other programs should use the members of `ExtensionHost`.
 */
export const masterServices = {
  config: defineService<LiveConfig>('config'),
  context: defineService<MasterContext>('context'),
  auth: defineService<Auth>('auth'),
  audit: defineService<Audit>('audit'),
  events: defineService<Events>('events'),
  jobs: defineService<Jobs>('jobs'),
  users: defineService<Users>('users'),
  /** Operations on keys. Their calls are audited. */
  keys: defineService<InProcessApi['keys']>('keys'),
  limits: defineService<RequestLimits>('limits'),
  functions: defineService<Functions>('functions'),
  contributions: defineService<Contributions>('contributions'),
  tokenHolders: defineService<TokenHolders>('token-holders'),
  /** Environments of the file server that contain states. An extension provides this service. */
  fileEnvironments: defineService<{ list(): readonly string[] }>('file-environments'),
  /** Methods of the master's interface that concern pillar. An extension provides this service. */
  pillar: defineService<PillarApi>('pillar'),
  /** Reactions part of the master's interface. An extension provides this service. */
  reactions: defineService<ReactionsApi>('reactions'),
  /**
   * Sites that have joined this master, if it is a centre. A site is another master, which
   * continues to work while its centre is unreachable. The extension `site-centre` provides this
   * service.
   */
  sites: defineService<SiteDirectory>('sites'),
};
