"""Titles of the methods' papers, and authors as BibTeX joins them, by arXiv number."""

from __future__ import annotations

PAPERS = {
    "2606.18681": (
        "Moving Beyond Diversity: Visual Token Pruning as Subspace Reconstruction for "
        "Efficient VLMs",
        "Lee, Jaeyeon and Wen, Shunjie and Choi, Dong-Wan",
    ),
    "2506.10967": (
        "Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in "
        "MLLMs",
        "Zhang, Qizhe and Liu, Mengzhen and Li, Lichen and Lu, Ming and Zhang, Yuan and Pan, "
        "Junwen and She, Qi and Zhang, Shanghang",
    ),
    "1312.6838": (
        "Greedy Column Subset Selection for Large-scale Data Sets",
        "Farahat, Ahmed K. and Elgohary, Ahmed and Ghodsi, Ali and Kamel, Mohamed S.",
    ),
    "1404.1530": (
        "Provable Deterministic Leverage Score Sampling",
        "Papailiopoulos, Dimitris and Kyrillidis, Anastasios and Boutsidis, Christos",
    ),
    "2403.06764": (
        "An Image is Worth 1/2 Tokens After Layer 2: Plug-and-Play Inference Acceleration for "
        "Large Vision-Language Models",
        "Chen, Liang and Zhao, Haozhe and Liu, Tianyu and Bai, Shuai and Lin, Junyang and "
        "Zhou, Chang and Chang, Baobao",
    ),
    "2403.15388": (
        "LLaVA-PruMerge: Adaptive Token Reduction for Efficient Large Multimodal Models",
        "Shang, Yuzhang and Cai, Mu and Xu, Bingxin and Lee, Yong Jae and Yan, Yan",
    ),
    "2409.10994": (
        "Less is More: A Simple yet Effective Token Reduction Method for Efficient Multi-modal "
        "LLMs",
        "Song, Dingjie and Wang, Wenjun and Chen, Shunian and Wang, Xidong and Guan, Michael "
        "and Wang, Benyou",
    ),
    "2410.04417": (
        "SparseVLM: Visual Token Sparsification for Efficient Vision-Language Model Inference",
        "Zhang, Yuan and Fan, Chun-Kai and Ma, Junpeng and Zheng, Wenzhao and Huang, Tao and "
        "Cheng, Kuan and Gudovskiy, Denis and Okuno, Tomoyuki and Nakata, Yohei and Keutzer, "
        "Kurt and Zhang, Shanghang",
    ),
    "2410.17247": (
        "PyramidDrop: Accelerating Your Large Vision-Language Models via Pyramid Visual "
        "Redundancy Reduction",
        "Xing, Long and Huang, Qidong and Dong, Xiaoyi and Lu, Jiajie and Zhang, Pan and Zang, "
        "Yuhang and Cao, Yuhang and He, Conghui and Wang, Jiaqi and Wu, Feng and Lin, Dahua",
    ),
    "2412.01818": (
        "Beyond Text-Visual Attention: Exploiting Visual Cues for Effective Token Pruning in VLMs",
        "Zhang, Qizhe and Cheng, Aosong and Lu, Ming and Zhang, Renrui and Zhuo, Zhiyong and "
        "Cao, Jiajun and Guo, Shaobo and She, Qi and Zhang, Shanghang",
    ),
    "2412.04467": (
        "VisionZip: Longer is Better but Not Necessary in Vision Language Models",
        "Yang, Senqiao and Chen, Yukang and Tian, Zhuotao and Wang, Chengyao and Li, Jingyao "
        "and Yu, Bei and Jia, Jiaya",
    ),
    "2502.11494": (
        "Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters More",
        "Wen, Zichen and Gao, Yifeng and Wang, Shaobo and Zhang, Junyuan and Zhang, Qintong "
        "and Li, Weijia and He, Conghui and Zhang, Linfeng",
    ),
    "2503.02175": (
        "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models",
        "Alvar, Saeed Ranjbar and Singh, Gursimran and Akbari, Mohammad and Zhang, Yong",
    ),
    "2505.22654": (
        "VScan: Rethinking Visual Token Reduction for Efficient Large Vision-Language Models",
        "Zhang, Ce and Ma, Kaixin and Fang, Tianqing and Yu, Wenhao and Zhang, Hongming and "
        "Zhang, Zhisong and Xie, Yaqi and Sycara, Katia and Mi, Haitao and Yu, Dong",
    ),
    "2508.00553": (
        "HiPrune: Hierarchical Attention for Efficient Token Pruning in Vision-Language Models",
        "Liu, Jizhihui and Du, Feiyi and Zhu, Guangdao and Lian, Niu and Li, Jun and Chen, Bin "
        "and Guan, Weili and Wang, Yaowei",
    ),
    "2508.18264": (
        "MMTok: Multimodal Coverage Maximization for Efficient Inference of VLMs",
        "Dong, Sixun and Hu, Juhua and Zhang, Mian and Yin, Ming and Fu, Yanjie and Qian, Qi",
    ),
    "2509.01552": (
        "Variation-aware Vision Token Dropping for Faster Large Vision-Language Models",
        "Chen, Junjie and Liu, Xuyang and Wen, Zichen and Wang, Yiyu and Huang, Siteng and "
        "Chen, Honggang",
    ),
    "2509.24837": (
        "ZOO-Prune: Training-Free Token Pruning via Zeroth-Order Gradient Estimation in "
        "Vision-Language Models",
        "Kim, Youngeun and Zhang, Youjia and Liu, Huiling and Jung, Aecheon and Lee, Sunwoo "
        "and Hong, Sungeun",
    ),
    "2510.02912": (
        "Don't Just Chase ``Highlighted Tokens'' in MLLMs: Revisiting Visual Holistic Context "
        "Retention",
        "Zou, Xin and Lu, Di and Wang, Yizhou and Yan, Yibo and Lyu, Yuanhuiyi and Zheng, Xu "
        "and Zhang, Linfeng and Hu, Xuming",
    ),
    "2510.24214": (
        "SCOPE: Saliency-Coverage Oriented Token Pruning for Efficient Multimodel LLMs",
        "Deng, Jinhong and Li, Wen and Zhou, Joey Tianyi and He, Yang",
    ),
    "2605.13178": (
        "CLIP Tricks You: Training-free Token Pruning for Efficient Pixel Grounding in Large "
        "Vision-Language Models",
        "Lee, Sangin and Choi, Yukyung",
    ),
}
