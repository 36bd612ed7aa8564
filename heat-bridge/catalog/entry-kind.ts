import type { Catalog } from '../commands/command-catalog.ts';

/** Kind of entries in catalog files, below a separate key. */
export interface CatalogEntryKind<D extends { readonly name: string } = { readonly name: string }> {
  /** Key, for example `murano`. No command can have this name. */
  readonly key: string;
  /**
   * Parses one entry.
   * @throws BridgeError ERR_CATALOG
   */
  parse(name: string, value: unknown): D;
  /**
   * Validates one entry on its own.
   * @throws BridgeError ERR_CATALOG
   */
  check(definition: D, commands: Catalog): void;
}

/** Kind whose code is loaded only if a catalog file has entries of it. */
export interface CatalogKindSource {
  readonly key: string;
  load(): Promise<CatalogEntryKind>;
}

/** Returns the entries of a kind, with the kind's type. */
export type EntriesOf = <D extends { readonly name: string }>(
  kind: CatalogEntryKind<D>,
) => readonly D[];
