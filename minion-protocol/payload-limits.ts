/** Limits for reading a payload. */
export interface PayloadLimits {
  /** Maximum size of the packed form, in bytes. */
  readonly maxBytes: number;
  /** Maximum nesting of maps and lists. It also limits the recursion of the reader. */
  readonly maxDepth: number;
  /** Maximum number of list elements and map entries in the whole value. */
  readonly maxElements: number;
  /**
   * Whether a map with a duplicate key, or with a key that is not text, is rejected. Default:
   * `false`; then the last value of a duplicate key is used.
   */
  readonly uniqueKeys?: boolean;
  /**
   * Maximum size of a text, in bytes. A longer text is returned as bytes, which are not checked or
   * copied. Default: no maximum.
   */
  readonly maxTextBytes?: number;
}

const mebibyte = 1024 * 1024;

/**
 * Limits for messages from unauthenticated peers [THREATS N-03, N-04]. They are low, because
 * sign-ins contain few values. An unknown peer therefore cannot make the master read a large map.
 */
export const clearLimits: PayloadLimits = {
  maxBytes: mebibyte,
  maxDepth: 8,
  maxElements: 2_000,
};

/**
 * Limits for messages from authenticated peers [THREATS N-04]. They are much higher than
 * {@link clearLimits}, because real returns are large. The schema of a Kubernetes resource
 * definition nests two levels per field and reaches depth 30 inside a state return. The package
 * list of a repository has 130,000 elements.
 */
export const loadLimits: PayloadLimits = {
  maxBytes: 16 * mebibyte,
  maxDepth: 64,
  maxElements: 250_000,
};
