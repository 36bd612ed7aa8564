/** What a store knows of itself, in the table `meta`. */
import { encodeKey } from './key.ts';

/** How the rows of this version are laid out; see row-format.ts. */
export const layoutVersion = 1;

/** Where the layout is written; absent in layout 0. */
export const layoutKey: Buffer = encodeKey(['layout']);

/** Where the revision of the last write is. */
export const revisionKey: Buffer = encodeKey(['revision']);
