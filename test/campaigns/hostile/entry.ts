/** One entry of the hostile-input matrix. */

/** Result of a hostile request. */
export interface Outcome {
  /** Answer in a few words, for the statistics. */
  readonly answer: string;
  /** Description of an answer that no client may receive. */
  readonly defect?: string;
}

/** Row of the matrix: one entry of a table. */
export interface Entry {
  /** Table and name of the entry, for example `request _mine_get`. */
  readonly name: string;
  readonly fields: readonly string[];
  /** Maximum size of a value in bytes. */
  readonly maxBytes: number;
  /** Maximum nesting depth of a value. Default: 2,000. */
  readonly maxDepth?: number;
  /** Whether the operator sends the request, who may change everything. Default: false. */
  readonly isOfOperator?: boolean;
  /** Prepares a request in which the field has this value. The result sends it. */
  prepare(field: string, value: unknown): () => Promise<Outcome>;
}
