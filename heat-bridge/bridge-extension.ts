/**
 * Interface of extensions of the bridge, for example signals or software deployments. Each enabled
 * extension of the bridge becomes a separate extension of the master. The code of a disabled
 * extension is not loaded.
 */

import type { FastifyInstance } from 'fastify';
import type { MasterConfig } from '#config';
import type { ExtensionHost, ExtPillar, OpenExtension } from '#master';
import type { CatalogEntryKind, CatalogKindSource } from './catalog/entry-kind.ts';
import type { CommandDefinition } from './commands/command-definition.ts';
import type { BridgeHttpContext } from './http/written-answers.ts';
import type { BridgeSections, SectionProblem } from './options.ts';
import type { PlanDefinition } from './plans/plan-definition.ts';
import type { Traces } from './tracing.ts';

/**
 * Description of an extension of the bridge. The bridge reads it to decide whether to load the code
 * of the extension.
 */
export interface BridgeExtension {
  /**
   * Name of the extension in the option `extensions` of the bridge. In the master, the extension
   * has the name `bridge-<name>`.
   */
  readonly name: string;
  /**
   * Keys of `saltbridge: bridge:` that configure the extension. The value `false` for any of these
   * keys disables the extension.
   */
  readonly sections: readonly (keyof BridgeSections)[];
  /**
   * Names of extensions of the bridge that must be enabled. Otherwise this extension is disabled.
   */
  readonly requires?: readonly string[];
  /** Names of extensions that must be opened before this one, if they are enabled. */
  readonly after?: readonly string[];
  /** Whether the configuration enables the extension. Default: always enabled. */
  readonly isConfigured?: (sections: BridgeSections) => boolean;
  /**
   * Key of the extension's entries in catalog files. Absent if catalog files cannot contain entries
   * for the extension.
   */
  readonly catalogKey?: string;
  load(): Promise<BridgeExtensionModule>;
}

/** Code of an extension. */
export interface BridgeExtensionModule {
  /** Kind of the catalog entries under {@link BridgeExtension.catalogKey}. */
  readonly entries?: CatalogEntryKind;
  /** Returns all errors in the sections of the extension. */
  check(context: CheckContext): readonly SectionProblem[] | Promise<readonly SectionProblem[]>;
  /**
   * Opens the extension.
   * @throws BridgeError ERR_BRIDGE_OPTIONS, ERR_CATALOG; StoreError
   */
  open(host: ExtensionHost, context: BridgeContext): Promise<BridgeContribution>;
}

/** Input for the check of an extension's options. */
export interface CheckContext {
  /** Sections of `saltbridge: bridge:`, not validated. */
  readonly sections: Readonly<Partial<Record<keyof BridgeSections, unknown>>>;
  readonly config: Pick<MasterConfig, 'api' | 'confFile' | 'restCherrypy'>;
  /**
   * Errors that earlier checks have found: invalid section names, and errors in the sections of
   * other extensions.
   */
  readonly problems: readonly SectionProblem[];
  /** Names of the enabled extensions. */
  readonly names: ReadonlySet<string>;
  /** Kinds of entries that catalog files may have. */
  readonly kinds: readonly CatalogKindSource[];
}

/** Input that all extensions of one bridge get when they are opened. */
export interface BridgeContext {
  readonly sections: BridgeSections;
  /** Commands that the embedding program defines in addition to those of the catalog files. */
  readonly commands: readonly CommandDefinition[];
  readonly plans: readonly PlanDefinition[];
  /** Name of the service that counts as the caller if a request names no caller. */
  readonly service: string;
  readonly traces: Traces | undefined;
  /** Names of the enabled extensions. */
  readonly names: ReadonlySet<string>;
  /** Kinds of entries that catalog files may have. */
  readonly kinds: readonly CatalogKindSource[];
}

/** Functions, pillar data and HTTP routes that an open extension of the bridge provides. */
export interface BridgeContribution extends Omit<OpenExtension, 'pillar' | 'routes'> {
  /** Provider of pillar data below the key `saltbridge`. */
  readonly pillar?: ExtPillar;
  /** Adds the extension's HTTP routes below `/bridge/v1`. */
  readonly addRoutes?: (app: FastifyInstance, context: BridgeHttpContext) => void;
}
