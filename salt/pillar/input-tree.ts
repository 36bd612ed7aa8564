/**
 * A tree of rendered results, for example pillars. Each node is an input that a rendering reads,
 * such as a grain, and each branch is a value of this input. The value determines which input the
 * rendering reads next. A look-up therefore follows one path of the tree, and needs only the inputs
 * on this path.
 */

/** An input that a rendering has read: the name, and a fingerprint of its value. */
export type Input = readonly [name: string, mark: string];

/** Inputs of a rendered result, in the order in which the rendering read them. */
export interface Inputs {
  /** Fingerprint of the inputs that are known before rendering, such as the environment. */
  readonly root: string;
  readonly inputs: readonly Input[];
}

interface Branch<Result> {
  /**
   * Name of the input at this node of the tree, for example a grain. Its values select the next
   * nodes in `next`.
   */
  readonly name: string;
  readonly next: Map<string, Branch<Result> | Leaf<Result>>;
}

interface Leaf<Result> {
  readonly result: Result;
}

type TreeNode<Result> = Branch<Result> | Leaf<Result>;

/**
 * Rendered results, found by their inputs. Each node of the tree is an input, for example a grain,
 * and each branch is one value of this input.
 */
export class InputTree<Result extends Inputs> {
  readonly #roots = new Map<string, TreeNode<Result>>();

  /**
   * Returns the stored result whose inputs are all unchanged, or `undefined` if there is none.
   * @param root - fingerprint of the inputs that are known before the rendering
   * @param markOf - returns the present fingerprint of the input with this name
   */
  find(root: string, markOf: (name: string) => string): Result | undefined {
    let node = this.#roots.get(root);
    while (node !== undefined && 'next' in node) node = node.next.get(markOf(node.name));
    return node?.result;
  }

  /**
   * Adds a result, and returns the results that it replaces: a result with the same inputs, and
   * results that contradict the new one. Results contradict each other if their renderings read
   * equal inputs up to some point, but then different ones. The cause is, for example, a file that
   * has changed between the renderings.
   */
  add(result: Result): Result[] {
    const replaced: Result[] = [];
    let place = this.#roots;
    let key = result.root;
    for (const [name, mark] of result.inputs) {
      let node = place.get(key);
      if (node === undefined || !('next' in node) || node.name !== name) {
        replaced.push(...resultsIn(node));
        node = { name, next: new Map() };
        place.set(key, node);
      }
      place = node.next;
      key = mark;
    }
    replaced.push(...resultsIn(place.get(key)));
    place.set(key, { result });
    return replaced;
  }

  /**
   * Removes a result from the tree. Does nothing if the result is no longer in the tree, because
   * another one has replaced it.
   */
  delete(result: Result): void {
    const path: [place: Map<string, TreeNode<Result>>, key: string][] = [
      [this.#roots, result.root],
    ];
    for (const [name, mark] of result.inputs) {
      const [place, key] = path.at(-1) ?? [this.#roots, result.root];
      const node = place.get(key);
      if (node === undefined || !('next' in node) || node.name !== name) return;
      path.push([node.next, mark]);
    }
    const [last, lastKey] = path.at(-1) ?? [this.#roots, result.root];
    const leaf = last.get(lastKey);
    if (leaf === undefined || 'next' in leaf || leaf.result !== result) return;
    for (const [place, key] of path.reverse()) {
      const node = place.get(key);
      if (node !== undefined && 'next' in node && node.next.size > 0) return;
      place.delete(key);
    }
  }
}

function resultsIn<Result>(node: TreeNode<Result> | undefined): Result[] {
  if (node === undefined) return [];
  return 'next' in node ? [...node.next.values()].flatMap(resultsIn) : [node.result];
}
