import type { Catalog } from '../commands/command-catalog.ts';

/**
 * Kind of entries in catalog files, besides commands and plans. The entries are below the key of
 * their kind, for example `murano`.
 */
export interface CatalogEntryKind<D extends { readonly name: string } = { readonly name: string }> {
  /** Key in catalog files, for example `murano`. No command can have this name. */
  readonly key: string;
  /**
   * Parses one entry.
   * @throws BridgeError ERR_CATALOG
   */
  parse(name: string, value: unknown): D;
  /**
   * Validates an entry without considering other entries of its kind.
   * @throws BridgeError ERR_CATALOG
   */
  check(definition: D, commands: Catalog): void;
}

/** Kind of catalog entries. Its code is loaded only if a catalog file contains such entries. */
export interface CatalogKindSource {
  readonly key: string;
  load(): Promise<CatalogEntryKind>;
}

/**
 * Function that returns the parsed catalog entries of a kind. The kind determines the type of the
 * entries.
 */
export type EntriesOf = <D extends { readonly name: string }>(
  kind: CatalogEntryKind<D>,
) => readonly D[];
