import type { Catalog } from '../commands/command-catalog.ts';

/** A kind of entries that stand in catalog files below a key of their own. */
export interface CatalogEntryKind<D extends { readonly name: string } = { readonly name: string }> {
  /** For instance `murano`. No command has this name. */
  readonly key: string;
  /** Reads one entry. @throws BridgeError ERR_CATALOG */
  parse(name: string, value: unknown): D;
  /** Checks one entry by itself. @throws BridgeError ERR_CATALOG */
  check(definition: D, commands: Catalog): void;
}

/** A kind whose code is loaded only if a catalog file has entries of it. */
export interface CatalogKindSource {
  readonly key: string;
  load(): Promise<CatalogEntryKind>;
}

/** The entries of a kind with the kind's type. */
export type EntriesOf = <D extends { readonly name: string }>(
  kind: CatalogEntryKind<D>,
) => readonly D[];
