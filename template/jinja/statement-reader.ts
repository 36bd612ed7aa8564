import type { Statement } from './ast.ts';
import type { TokenStream } from './token-stream.ts';

/** What the reader of one statement has of the parser. */
export interface StatementBody {
  /** The inside of a block, up to its end, which is taken too. */
  block(end: string): Statement[];
  /** The inside of a block, up to one of the words. */
  open(ends: readonly string[]): Statement[];
  /** A name that no template can write. */
  hiddenName(): string;
}

/** Reads one statement, whose name is already taken. @throws SyntaxProblem */
export type Reader = (
  parser: StatementBody,
  stream: TokenStream,
  line: number,
) => Statement | Statement[];
