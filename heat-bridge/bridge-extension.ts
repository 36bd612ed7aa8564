/**
 * The interface of an extension of the bridge, such as signals or software deployments. Each joins
 * the master as an extension of its own. Its module is loaded only if the extension is enabled.
 */

import type { FastifyInstance } from 'fastify';
import type { MasterConfig } from '#config';
import type { ExtensionHost, ExtPillar, HttpServerContext, OpenExtension } from '#master';
import type { CatalogEntryKind, CatalogKindSource } from './catalog/entry-kind.ts';
import type { CommandDefinition } from './commands/command-definition.ts';
import type { BridgeSections, SectionProblem } from './options.ts';
import type { PlanDefinition } from './plans/plan-definition.ts';
import type { Traces } from './tracing.ts';

/** An extension of the bridge, before its module is loaded. */
export interface BridgeExtension {
  /** Name in the option `extensions` of the bridge. The master knows it as `bridge-<name>`. */
  readonly name: string;
  /** Keys of `saltbridge: bridge:` that configure it. `false` as the value of one leaves it out. */
  readonly sections: readonly (keyof BridgeSections)[];
  /** Names of extensions of the bridge without which it is left out. */
  readonly requires?: readonly string[];
  /** Names of extensions that are opened before it, if they are enabled. */
  readonly after?: readonly string[];
  /** Whether the configuration asks for it. Default: always. */
  readonly isConfigured?: (sections: BridgeSections) => boolean;
  /** Key of the catalog files below which its entries stand. */
  readonly catalogKey?: string;
  load(): Promise<BridgeExtensionModule>;
}

/** The code of an extension. */
export interface BridgeExtensionModule {
  /** The entries that it reads below {@link BridgeExtension.catalogKey}. */
  readonly entries?: CatalogEntryKind;
  /** Returns every mistake in its sections. */
  check(context: CheckContext): readonly SectionProblem[] | Promise<readonly SectionProblem[]>;
  /** @throws BridgeError ERR_BRIDGE_OPTIONS, ERR_CATALOG; StoreError */
  open(host: ExtensionHost, context: BridgeContext): Promise<BridgeContribution>;
}

/** A configuration whose sections are checked. */
export interface CheckContext {
  /** The sections as they are written. Their form has not been checked. */
  readonly sections: Readonly<Partial<Record<keyof BridgeSections, unknown>>>;
  readonly config: Pick<MasterConfig, 'api' | 'confFile' | 'restCherrypy'>;
  /** Mistakes in the sections of the extensions before. */
  readonly problems: readonly SectionProblem[];
  /** Names of the enabled extensions. */
  readonly names: ReadonlySet<string>;
  /** Kinds of entries that the catalog files may have. */
  readonly kinds: readonly CatalogKindSource[];
}

/** What the extensions of one bridge share. */
export interface BridgeContext {
  readonly sections: BridgeSections;
  /** Commands and plans of the program. */
  readonly commands: readonly CommandDefinition[];
  readonly plans: readonly PlanDefinition[];
  /** Service that calls where a request names no caller. */
  readonly service: string;
  readonly traces: Traces | undefined;
  /** Names of the enabled extensions. */
  readonly names: ReadonlySet<string>;
  /** Kinds of entries that the catalog files may have. */
  readonly kinds: readonly CatalogKindSource[];
}

/** What an enabled extension adds to the master and to the routes of the bridge. */
export interface BridgeContribution extends Omit<OpenExtension, 'pillar' | 'routes'> {
  /** Pillar below the key `saltbridge`. */
  readonly pillar?: ExtPillar;
  /** Adds its routes below `/bridge/v1`. */
  readonly addRoutes?: (app: FastifyInstance, context: HttpServerContext) => void;
}
