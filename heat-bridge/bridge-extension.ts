/**
 * Interface of extensions of the bridge, such as signals or software deployments. Each joins the
 * master as a separate extension. Its module is loaded only if the extension is enabled.
 */

import type { FastifyInstance } from 'fastify';
import type { MasterConfig } from '#config';
import type { ExtensionHost, ExtPillar, HttpServerContext, OpenExtension } from '#master';
import type { CatalogEntryKind, CatalogKindSource } from './catalog/entry-kind.ts';
import type { CommandDefinition } from './commands/command-definition.ts';
import type { BridgeSections, SectionProblem } from './options.ts';
import type { PlanDefinition } from './plans/plan-definition.ts';
import type { Traces } from './tracing.ts';

/** Extension of the bridge, before its module is loaded. */
export interface BridgeExtension {
  /** Name in the option `extensions` of the bridge. Its name in the master is `bridge-<name>`. */
  readonly name: string;
  /**
   * Keys of `saltbridge: bridge:` that configure it. The value `false` of any of them disables it.
   */
  readonly sections: readonly (keyof BridgeSections)[];
  /** Names of extensions of the bridge that it requires. It is disabled without them. */
  readonly requires?: readonly string[];
  /** Names of extensions that are opened before it, if they are enabled. */
  readonly after?: readonly string[];
  /** Whether the configuration enables it. Default: always enabled. */
  readonly isConfigured?: (sections: BridgeSections) => boolean;
  /** Key in catalog files of this extension's entries. */
  readonly catalogKey?: string;
  load(): Promise<BridgeExtensionModule>;
}

/** Code of an extension. */
export interface BridgeExtensionModule {
  /** Kind of its entries below {@link BridgeExtension.catalogKey}. */
  readonly entries?: CatalogEntryKind;
  /** Returns every error in its sections. */
  check(context: CheckContext): readonly SectionProblem[] | Promise<readonly SectionProblem[]>;
  /**
   * Opens the extension.
   * @throws BridgeError ERR_BRIDGE_OPTIONS, ERR_CATALOG; StoreError
   */
  open(host: ExtensionHost, context: BridgeContext): Promise<BridgeContribution>;
}

/** Configuration whose sections are checked. */
export interface CheckContext {
  /** Sections, whose form has not been validated. */
  readonly sections: Readonly<Partial<Record<keyof BridgeSections, unknown>>>;
  readonly config: Pick<MasterConfig, 'api' | 'confFile' | 'restCherrypy'>;
  /** Errors in the sections of preceding extensions. */
  readonly problems: readonly SectionProblem[];
  /** Names of the enabled extensions. */
  readonly names: ReadonlySet<string>;
  /** Kinds of entries that catalog files may have. */
  readonly kinds: readonly CatalogKindSource[];
}

/** Context that the extensions of one bridge share. */
export interface BridgeContext {
  readonly sections: BridgeSections;
  /** Commands of the program. */
  readonly commands: readonly CommandDefinition[];
  readonly plans: readonly PlanDefinition[];
  /** Service that is the caller if a request names none. */
  readonly service: string;
  readonly traces: Traces | undefined;
  /** Names of the enabled extensions. */
  readonly names: ReadonlySet<string>;
  /** Kinds of entries that catalog files may have. */
  readonly kinds: readonly CatalogKindSource[];
}

/** Parts that an enabled extension adds to the master and to the routes of the bridge. */
export interface BridgeContribution extends Omit<OpenExtension, 'pillar' | 'routes'> {
  /** Pillar below the key `saltbridge`. */
  readonly pillar?: ExtPillar;
  /** Adds its routes below `/bridge/v1`. */
  readonly addRoutes?: (app: FastifyInstance, context: HttpServerContext) => void;
}
