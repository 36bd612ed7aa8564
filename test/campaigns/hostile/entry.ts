/** One entry of the hostile-input matrix. */

/** Result of a hostile request. */
export interface Outcome {
  /** Short form of the answer, for the statistics. */
  readonly answer: string;
  /** Description of an answer that no client may receive. */
  readonly defect?: string;
}

/** Row of the matrix, for example one request type or one HTTP route. */
export interface Entry {
  /** Kind and name of the interface, for example `request _mine_get`. */
  readonly name: string;
  readonly fields: readonly string[];
  /** Maximum size of a value in bytes. */
  readonly maxBytes: number;
  /** Maximum nesting depth of a value. Default: 2,000. */
  readonly maxDepth?: number;
  /** Names of the families of the values. Default: all. */
  readonly families?: readonly string[];
  /** Whether the operator sends the request. The operator may change everything. Default: false. */
  readonly isOfOperator?: boolean;
  /** Whether the entry runs in a process of its own, so that it delays no other caller. Default: false. */
  readonly isAlone?: boolean;
  /** Prepares a request with this value in the field. Returns a function that sends the request. */
  prepare(field: string, value: unknown): () => Promise<Outcome>;
}
